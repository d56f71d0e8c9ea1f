"""Translation sets of TensorFlow Datasets, read without TensorFlow."""

import os

from attn_jax.data.splits import Corpus, Pairs, trainable
from attn_jax.data.tfds_sets import prepared, source_of


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
    builder = prepared(name, directory)
    fields = sorted(builder.info.features)
    unknown = [language for language in languages if language not in fields]
    if unknown:
        raise ValueError(f"{name} has no {' and '.join(unknown)}; it has {', '.join(fields)}")

    def pairs(split: str) -> Pairs:
        source = source_of(builder, split)
        examples = source.__getitems__(range(len(source)))  # Twice as fast as one by one.
        return Pairs(*([_text(e[language]) for e in examples] for language in languages))

    train, validation, test = map(pairs, splits)
    return Corpus(trainable(train), validation, test, *languages)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value
