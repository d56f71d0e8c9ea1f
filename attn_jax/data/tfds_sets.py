"""Sets that TensorFlow Datasets prepared as `array_record` files, found without TensorFlow."""

import os
from typing import Any


def prepared(name: str, directory: str | os.PathLike | None = None) -> Any:
    """The builder of a set, over files that are there and can be read.

    Preparing one needs TensorFlow, once, in whatever environment has it; reading does not.

    Args:
      name: with its configuration, such as `wmt14_translate/de-en`.
      directory: TFDS's data directory; by default TFDS's own, `~/tensorflow_datasets`.

    Raises:
      FileNotFoundError: the set has not been prepared; the message says how to.
      ImportError: TensorFlow Datasets is not installed.
    """
    try:
        import tensorflow_datasets  # It takes a second, which others are spared.
    except ImportError as error:
        raise ImportError(
            "reading TensorFlow Datasets needs `pip install tensorflow-datasets array-record`"
        ) from error
    where = None if directory is None else os.fspath(directory)
    try:
        # Sets prepared anywhere describe themselves, so the code that made them is not needed.
        builder = tensorflow_datasets.core.read_only_builder.builder_from_files(
            name, data_dir=where
        )
    except tensorflow_datasets.core.DatasetNotFoundError as error:
        raise FileNotFoundError(f"{name} is not in {_shown(where)}. {_advice(name)}") from error
    formats = builder.info.file_format
    if formats.value != "array_record":
        raise FileNotFoundError(
            f"{name} in {_shown(where)} is in {formats.value} files. {_advice(name)}"
        )
    return builder


def source_of(builder: Any, split: str, **options: Any) -> Any:
    """A split of a prepared set, or a slice of one such as `train[:99%]`, read by number.

    Args:
      builder: of :func:`prepared`.
      split: its name.
      options: of the builder's `as_data_source`.

    Raises:
      ValueError: the set has no such split; the message lists those it has.
    """
    try:
        return builder.as_data_source(split=split, **options)
    except (ValueError, KeyError) as error:
        known = ", ".join(builder.info.splits)
        raise ValueError(
            f"{builder.info.name} has no split {split!r}; it has {known}, and slices of them such as"
            f" 'train[:99%]' ({error})"
        ) from error


def _shown(directory: str | None) -> str:
    return directory or "TensorFlow Datasets' data directory"


def _advice(name: str) -> str:
    return (
        "Prepare it once in an environment with `pip install tensorflow-cpu tensorflow-datasets`:"
        f" `tfds build {name} --file_format=array_record`; then it is read here without TensorFlow"
    )
