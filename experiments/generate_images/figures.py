"""What comes of drawing: images from nothing, halves gone on with, and where the bits are."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from attn_jax.data.images import Images
from attn_jax.diagnostics.image_maps import image_maps
from experiments.generate_images.config import Config
from experiments.generate_images.method import Learned, draw_on, pictures


def draw(
    config: Config,
    shown: Images,
    models: Mapping[str, Learned],
    places: Mapping[str, np.ndarray],
    wholes: Mapping[str, np.ndarray],
) -> dict[str, Figure]:
    """The pictures of a run, by name.

    Args:
      config: of the run.
      shown: the first held-out images.
      models: by pattern.
      places: the bits of each place, `t`, by pattern.
      wholes: held-out images whose lower half was drawn, `n t`, by pattern.
    """
    shape, colours = shown.pixels.shape[1:], config.model.colours
    nothing, length = np.zeros((shown.number, 0), np.int32), int(np.prod(shape))
    drawn = {
        f"drawn, {pattern}": pictures(draw_on(x, config, nothing, length), shape, colours)
        for pattern, x in models.items()
    }
    upper = shown.scaled
    upper[:, shape[0] // 2 :] = 0
    completed = {
        f"completed, {pattern}": pictures(whole[: shown.number], shape, colours)
        for pattern, whole in wholes.items()
    }
    maps = {
        f"{name}, {x.mean():.2f}": x.reshape(shape).mean(-1)[None] for name, x in places.items()
    }
    return {
        "samples": image_maps({"held out": shown.scaled, **drawn}, title="Drawn pixel by pixel"),
        "completions": image_maps(
            {"held out": shown.scaled, "what is given": upper, **completed},
            title="Lower halves drawn, given the upper ones",
        ),
        "bits": image_maps({"the first": shown.scaled[:1]}, maps, "Where the bits are"),
    }
