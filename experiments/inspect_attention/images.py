"""A picture to the pixels of a published model of images."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from attn_jax.diagnostics.report import Picture
from attn_jax.models.vit import ViTConfig
from attn_jax.modules.convolution import pair


class Seen(NamedTuple):
    """A picture as a model sees it.

    Args:
      pixels: `1 y x c`, float32, normalised.
      tokens: what its tokens are called: the first ones, and patches by row, column.
      picture: what people see of it.
    """

    pixels: np.ndarray
    tokens: Sequence[str]
    picture: Picture


def read(file: Path, config: ViTConfig, directory: Path) -> Seen:
    """Reads a picture in the size that a model was trained on.

    Numbers are normalised as preprocessor_config.json of the model's directory says, or to −1 to 1.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no picture.
    """
    height, width = pair(config.image)
    try:
        with Image.open(file) as opened:
            image = opened.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    except UnidentifiedImageError as error:
        raise ValueError(f"{file} is no picture that can be read") from error
    said = directory / "preprocessor_config.json"
    asked = json.loads(said.read_text("utf-8")) if said.is_file() else {}
    mean, deviation = (np.array(asked.get(f"image_{x}", 0.5), np.float32) for x in ("mean", "std"))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    rows, columns = config.grid
    first = ["class", "distillation"][: 1 + config.distilled]
    patches = [f"{y}, {x}" for y in range(rows) for x in range(columns)]
    pixels = (np.asarray(image, np.float32) / 255 - mean) / deviation
    picture = Picture(buffer.getvalue(), rows, columns, len(first))
    return Seen(pixels[None], [*first, *patches], picture)
