"""Translation sets of TensorFlow Datasets, read without TensorFlow."""

import os
from typing import Any

from attn_jax.data.splits import Corpus, Pairs, trainable


def tfds(
    name: str,
    languages: tuple[str, str],
    directory: str | os.PathLike | None = None,
    splits: tuple[str, str, str] = ("train", "validation", "test"),
) -> Corpus:
    """A translation set that TensorFlow Datasets prepared as `array_record` files.

    Preparing one needs TensorFlow, once, in whatever environment has it; reading does not.

    Args:
      name: with its configuration, such as `wmt14_translate/de-en`.
      languages: of source and target: two of the set's fields, in the direction wanted.
      directory: TFDS's data directory; by default TFDS's own, `~/tensorflow_datasets`.
      splits: to train, validate and test on; slices such as `train[:99%]` are understood.

    Raises:
      FileNotFoundError: the set has not been prepared; the message says how to.
      ValueError: the set has no such language or split.
    """
    try:
        import tensorflow_datasets  # It takes a second, which others are spared.
    except ImportError as error:
        raise ImportError(
            "reading TensorFlow Datasets needs `pip install tensorflow-datasets array-record`"
        ) from error
    builder = _builder(tensorflow_datasets, name, directory)
    fields = sorted(builder.info.features)
    unknown = [language for language in languages if language not in fields]
    if unknown:
        raise ValueError(f"{name} has no {' and '.join(unknown)}; it has {', '.join(fields)}")

    def pairs(split: str) -> Pairs:
        try:
            source = builder.as_data_source(split=split)
        except (ValueError, KeyError) as error:
            known = ", ".join(builder.info.splits)
            raise ValueError(
                f"{name} has no split {split!r}; it has {known}, and slices of them such as"
                f" 'train[:99%]' ({error})"
            ) from error
        examples = source.__getitems__(range(len(source)))  # Twice as fast as one by one.
        return Pairs(*([_text(e[language]) for e in examples] for language in languages))

    train, validation, test = map(pairs, splits)
    return Corpus(trainable(train), validation, test, *languages)


def _builder(tensorflow_datasets: Any, name: str, directory: str | os.PathLike | None) -> Any:
    """The set's builder, over files that are there and can be read."""
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


def _shown(directory: str | None) -> str:
    return directory or "TensorFlow Datasets' data directory"


def _advice(name: str) -> str:
    return (
        "Prepare it once in an environment with `pip install tensorflow-cpu tensorflow-datasets`:"
        f" `tfds build {name} --file_format=array_record`; then it is read here without TensorFlow"
    )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value
