"""A picture to what published models of images are given."""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

MOST_SIDE = 512  # pixels, of a picture on a page


def opened(file: Path, size: tuple[int, int]) -> Image.Image:
    """A picture in colour, resized to height and width.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no picture.
    """
    try:
        with Image.open(file) as image:
            return image.convert("RGB").resize(size[::-1], Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError) as error:
        raise ValueError(f"{file} is no picture that can be read") from error


def pixels(image: Image.Image, directory: Path) -> np.ndarray:
    """`1 y x c`, float32, normalised as the model of a directory says, or to −1 to 1."""
    asked = preprocessing(directory)
    mean, deviation = (np.array(asked.get(f"image_{x}", 0.5), np.float32) for x in ("mean", "std"))
    return ((np.asarray(image, np.float32) / 255 - mean) / deviation)[None]


def palette(directory: Path) -> np.ndarray:
    """The colours of an ImageGPT, `k 3`, from −1 to 1.

    Raises:
      ValueError: preprocessor_config.json does not say them.
    """
    clusters = np.array(preprocessing(directory).get("clusters", []), np.float32)
    if clusters.ndim != 2 or clusters.shape[1] != 3:
        raise ValueError(
            f'{directory / "preprocessor_config.json"} has no colours, "clusters", to read an image'
            " with: give --ids, numbers of colours with commas between"
        )
    return clusters


def preprocessing(directory: Path) -> Mapping[str, Any]:
    """What preprocessor_config.json of a model's directory says; nothing where there is none."""
    file = directory / "preprocessor_config.json"
    return read_object(file) if file.is_file() else {}


def read_object(file: Path) -> Mapping[str, Any]:
    """A file that holds a JSON object.

    Raises:
      ValueError: it does not.
    """
    try:
        held = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is no JSON: {error}") from error
    if not isinstance(held, dict):
        raise ValueError(f"{file} holds a {type(held).__name__}, expected an object")
    return held


def png(image: Image.Image) -> bytes:
    """A picture as a page has it: larger pixels where it has few, and no more than are seen."""
    larger = max(1, 256 // max(image.size))
    image = image.resize([larger * n for n in image.size], Image.Resampling.NEAREST)
    image.thumbnail((MOST_SIDE, MOST_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def coloured(colours: np.ndarray, palette: np.ndarray) -> Image.Image:
    """Numbers of colours, `t` of a square, as a picture."""
    side = math.isqrt(len(colours))
    return Image.fromarray(
        np.uint8(127.5 * (palette[colours].reshape(side, side, 3) + 1).clip(0, 2))
    )
