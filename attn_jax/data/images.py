"""Images with labels: scikit-learn's digits, or a set of TensorFlow Datasets."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from attn_jax.data.tfds_sets import prepared, source_of

HELD_OUT, ORDER = 0.2, 0  # of the digits, and the seed of the order in which they are taken


class Images(NamedTuple):
    """Pictures as they are stored, and what each shows."""

    pixels: np.ndarray
    """`n y x c` uint8, from 0 to `top`."""

    labels: np.ndarray
    """`n` int32."""

    top: int
    """The largest value that a pixel may have."""

    @property
    def number(self) -> int:
        """n."""
        return len(self.labels)

    def first(self, count: int) -> Images:
        """Of so many.

        Raises:
          ValueError: there are fewer.
        """
        if not 1 <= count <= self.number:
            raise ValueError(f"expected from 1 to {self.number} images, got {count}")
        return self._replace(pixels=self.pixels[:count], labels=self.labels[:count])

    @property
    def scaled(self) -> np.ndarray:
        """`n y x c` float32, from 0 to 1."""
        return self.pixels.astype(np.float32) / self.top


class LabelledImages(NamedTuple):
    """What is learned from, and what is judged by."""

    train: Images
    test: Images
    classes: int


def digits() -> LabelledImages:
    """Handwritten digits of 8 × 8 pixels, 1,438 to learn from and 359 to judge by.

    They are those that scikit-learn carries (the test set of the UCI "optical recognition of handwritten
    digits", CC BY 4.0, pixels from 0 to 16), in an order that is drawn once for all. The same 13 people
    wrote both parts.

    Raises:
      FileNotFoundError: scikit-learn is not installed.

    Reference: Alpaydin and Kaynak (1998), UCI Machine Learning Repository, doi:10.24432/C50P49.
    """
    try:
        from sklearn.datasets import load_digits  # It takes a second, which others are spared.
    except ImportError as error:
        raise FileNotFoundError(
            "the digits are those that scikit-learn carries: `pip install scikit-learn`"
        ) from error
    found = load_digits()
    order = np.random.default_rng(ORDER).permutation(len(found.target))
    pixels = found.images[order, :, :, None].astype(np.uint8)
    labels = found.target[order].astype(np.int32)
    first = len(order) - int(HELD_OUT * len(order))
    return LabelledImages(
        Images(pixels[:first], labels[:first], 16), Images(pixels[first:], labels[first:], 16), 10
    )


def tfds_images(
    name: str,
    directory: str | os.PathLike | None = None,
    splits: tuple[str, str] = ("train", "test"),
    size: int | None = None,
) -> LabelledImages:
    """A set of images that TensorFlow Datasets prepared as `array_record` files, read into memory.

    Args:
      name: such as `mnist`, `cifar10` or `imagenet2012`; its fields are `image` and `label`.
      directory: TFDS's data directory; by default TFDS's own, `~/tensorflow_datasets`.
      splits: to learn from and to judge by; slices such as `train[:10%]` are understood.
      size: height and width in pixels that every image is brought to, its shape not kept; None
        leaves them as they are.

    Raises:
      FileNotFoundError: the set has not been prepared; the message says how to.
      ValueError: the set has no images with labels or no such split, or its images differ in size.
    """
    builder = prepared(name, directory)
    fields = builder.info.features
    if not {"image", "label"} <= set(fields):
        raise ValueError(f"{name} has no image and label; it has {', '.join(sorted(fields))}")

    def read(split: str) -> Images:
        source = source_of(builder, split)
        examples = source.__getitems__(range(len(source)))
        pixels = [_resized(np.asarray(example["image"]), size) for example in examples]
        shapes = {image.shape for image in pixels}
        if len(shapes) != 1:
            raise ValueError(
                f"the images of {name} differ in size: give one that all are brought to, size=64"
                if shapes
                else f"{name} has no images in {split!r}"
            )
        return Images(
            np.stack(pixels), np.array([example["label"] for example in examples], np.int32), 255
        )

    train, test = map(read, splits)
    return LabelledImages(train, test, fields["label"].num_classes)


def _resized(image: np.ndarray, size: int | None) -> np.ndarray:
    """`y x c` uint8, its sides brought to a size by the mean of what each pixel covers."""
    if size is None or image.shape[:2] == (size, size):
        return image
    from PIL import Image

    picture: Any = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    resized = np.asarray(picture.resize((size, size), Image.Resampling.BOX))
    return resized.reshape(size, size, image.shape[-1])
