"""Looks into a published model of images: ViT, DeiT, Swin or ImageGPT."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.diagnostics.report import Cells, Example, Map
from attn_jax.models.image_gpt import ImageGPT, nearest
from attn_jax.models.swin import Swin
from attn_jax.models.vit import ViT
from attn_jax.modules.convolution import pair
from attn_jax.modules.windows import Windows
from experiments.command_line import Command
from experiments.inspect_attention import images
from experiments.inspect_attention.excerpts import ROOM, Excerpt, squares
from experiments.inspect_attention.inspection import refuse
from experiments.inspect_attention.words import numbered
from experiments.looking import Looked, look_into
from experiments.overrides import UsageError

Found = tuple[Looked, list[Example], str]
"""What was seen, examples, and a note."""

PLACES = {
    "centre": (0.5, 0.5),
    "top left": (0.0, 0.0),
    "top right": (0.0, 1.0),
    "bottom left": (1.0, 0.0),
    "bottom right": (1.0, 1.0),
}
"""Where on an image windows are looked into, as shares of its height and width."""


def look_at_patches(command: Command, model: ViT, directory: Path) -> Found:
    """A ViT or a DeiT."""
    refuse(command, ("text", "ids", "target"), "a model of images; give --image")
    config = model.config
    image = images.opened(given_image(command, directory), pair(config.image))
    first = ["class", "distillation"][: 1 + config.distilled]
    shown = squares(first, config.grid, config.layers * config.blocks.heads)
    looked = look_into(ViT.__call__, model, images.pixels(image, directory), groups=shown.groups)
    return looked, [_example(command, looked, shown, images.png(image))], shown.note


def look_at_pixels(command: Command, model: ImageGPT, directory: Path) -> Found:
    """An ImageGPT: the colours of an image, row by row, after a token that starts."""
    refuse(command, ("text", "target"), "an ImageGPT; give --image, or --ids of colours")
    config = model.config
    side = math.isqrt(config.positions)
    picture = None
    if command.options["ids"] is None:
        colours = images.palette(directory)
        image = images.opened(given_image(command, directory), (side, side))
        ids = np.asarray(nearest(jnp.asarray(image, jnp.float32) / 127.5 - 1, jnp.asarray(colours)))
        picture = images.png(images.coloured(ids, colours))
    else:
        refuse(command, ("image",), "an ImageGPT that is given --ids")
        ids = np.array(numbered(command.options["ids"]).ids)
    if max(ids) > config.vocabulary - 2 or len(ids) > config.positions:
        raise ValueError(
            f"expected at most {config.positions} colours, each from 0 to {config.vocabulary - 2}"
        )
    started = np.asarray(model.started(jnp.asarray(ids)[None]), np.int32)
    grid = (side, side) if len(ids) == side**2 else (1, len(ids))
    shown = squares(["start"], grid, config.layers * config.blocks.heads, read=started.size - 1)
    looked = look_into(ImageGPT.__call__, model, started, causal=("layers",), groups=shown.groups)
    last = len(shown.tokens) - 1  # it has seen the most
    return looked, [_example(command, looked, shown, picture, last)], shown.note


def look_at_windows(command: Command, model: Swin, directory: Path) -> Found:
    """A Swin: in each block, the window around a place."""
    refuse(command, ("text", "ids", "target"), "a Swin; give --image")
    side = images.preprocessing(directory).get("size", {})
    said = side if isinstance(side, int) else side.get("height", side.get("shortest_edge"))
    size = (said or _side(directory),) * 2
    file = given_image(command, directory)
    image = images.opened(file, size)
    pixels = images.pixels(image, directory)
    states = jax.eval_shape(Swin.hidden_states, model, pixels)
    looked = look_into(Swin.__call__, model, pixels)
    windows = {
        path: _cut(model, path, [x.shape[1:3] for x in states[1:]]) for path in looked.weights
    }
    one = sum(w.shape[-3] * w.shape[-1] ** 2 for w in looked.weights.values())
    places = dict(list(PLACES.items())[: max(1, ROOM // one)])
    examples = []
    for name, (y, x) in places.items():
        maps, focus = [], 0
        for number, (path, (grid, of)) in enumerate(windows.items()):
            cell = round(y * (grid[0] - 1)) * grid[1] + round(x * (grid[1] - 1))
            window, token = (int(n[0]) for n in np.nonzero(of == cell))
            tokens = ["padding" if c < 0 else f"{c // grid[1]}, {c % grid[1]}" for c in of[window]]
            cells = Cells(*grid, of[window].tolist())
            maps.append(Map(path, looked.weights[path][0, window], tokens, tokens, cells))
            focus = focus if number else token
        examples.append(Example(f"{file.name}: {name}", maps, focus, images.png(image)))
    note = (
        "Each block looks inside windows; an example has, of every block, the one around a place."
    )
    return looked, examples, note


def given_image(command: Command, directory: Path) -> Path:
    """The file that is looked at.

    Raises:
      UsageError: none was given.
    """
    if command.options["image"] is None:
        raise UsageError(f"{directory} holds a model of images: give --image=FILE to look at")
    return Path(command.options["image"])


def _side(directory: Path) -> int:
    return int(images.read_object(directory / "config.json").get("image_size", 224))


def _cut(
    model: Swin, path: str, sizes: list[tuple[int, int]]
) -> tuple[tuple[int, int], np.ndarray]:
    """Rows and columns of cells that a block sees, and those of each window, `w t`; −1 is padding."""
    _, stage, _, number, _ = path.split(".")
    height, width = sizes[int(stage)]
    windows: Windows = model.stages[int(stage)].blocks[int(number)].windows_of(height, width)
    cells = np.arange(1, height * width + 1).reshape(height, width, 1)
    return (height, width), np.asarray(windows.cut(jnp.asarray(cells)))[..., 0] - 1


def _example(
    command: Command, looked: Looked, shown: Excerpt, picture: bytes | None, focus: int = 0
) -> Example:
    cells = shown.cells if picture else None
    maps = [
        Map(path, w[0], shown.tokens, shown.tokens, cells) for path, w in looked.weights.items()
    ]
    title = f"{len(shown.tokens) - 1} colours"
    if command.options["image"] is not None:
        title = Path(command.options["image"]).name
    return Example(title, maps, focus, picture)
