"""Pictures for dark pages."""

from typing import Any

from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.spines import Spine
from matplotlib.text import Text

PAPER, INK = "#1a1e29", "#e7eaf3"


def darkened(figure: Figure) -> Figure:
    """The same figure with light writing on a dark ground; colours of data stay as they are.

    Args:
      figure: of this package; it is changed.

    >>> from attn_jax.diagnostics.plots import heat_map
    >>> darkened(heat_map([[1.0]], ["a"], ["b"])).get_facecolor()[:3] == to_rgb(PAPER)
    True
    """
    figure.set_facecolor(PAPER)
    for axes in figure.axes:
        axes.set_facecolor(PAPER)
        axes.tick_params(colors=INK, which="both")
        within = {id(text) for text in axes.texts}  # on coloured cells, chosen to be read there
        for artist in axes.findobj(lambda x: isinstance(x, Text | Line2D | Spine)):
            if isinstance(artist, Spine):
                artist.set_edgecolor(INK)
            elif not (axes.images and id(artist) in within):
                _lighten(artist)
    for text in figure.findobj(lambda x: isinstance(x, Text) and x.axes is None):
        _lighten(text)
    return figure


def _lighten(artist: Any) -> None:
    if _is_ink(artist.get_color()):
        artist.set_color(INK)


def _is_ink(colour: object) -> bool:
    """Whether it is a dark grey or black."""
    rgb = to_rgb(to_hex(colour))  # type: ignore[arg-type]
    return max(rgb) < 0.5 and max(rgb) - min(rgb) < 0.05
