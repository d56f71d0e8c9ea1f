"""Batches that leave nothing out, for evaluation and translation."""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from attn_jax.data.rows import Batch, Ragged, check_shard, pairs, share


def evaluation_batches(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
    *,
    rows: int = 64,
    longest: int = 256,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[Batch]:
    """Every example once, in batches whose shapes depend on no data.

    Sentences are padded to the next of 8, 16, 32, …, `longest`, by their own lengths alone, in
    `rows` rows of which some may be padding. So a sentence meets the same compiled program,
    alone or in company, and answers are put in order by `index`.

    Args:
      sources: ids of each source sentence, without begin and end.
      targets: ids of its translation; without, batches hold `source` and `index` only.
      rows: of every batch, over all hosts.
      longest: sides of more tokens than this, begin or end included, are cut, with a warning
        that names the lines: no example is dropped.
      shard: as for `Batches`.

    Returns:
      An iterator of batches as `Batches` makes them; short sentences come first.

    Raises:
      TypeError: a token is not an integer; the message names the example.
      ValueError: unequal numbers of sources and targets, or an argument out of range.

    >>> for batch in evaluation_batches([[5] * 9, [6], []], rows=2):
    ...     print(batch["index"], batch["source"].shape)
    [2 1] (2, 8)
    [ 0 -1] (2, 16)
    """
    if targets is not None and len(sources) != len(targets):
        raise ValueError(
            f"expected a target for every source: {len(sources)} sources, {len(targets)} targets"
        )
    if rows < 1 or longest < 1:
        raise ValueError(f"expected rows and longest to be at least 1, got {rows} and {longest}")
    check_shard(shard, rows)
    source = Ragged(_cut(sources, longest, "source"), "source")
    target = None if targets is None else Ragged(_cut(targets, longest, "target"), "target")
    lengths = source.lengths if target is None else np.maximum(source.lengths, target.lengths)
    widths = [width for width in (1 << n for n in range(3, 63)) if width < longest] + [longest]
    bucket = np.searchsorted(widths, lengths)
    plan = []
    for number, width in enumerate(widths):
        index = np.flatnonzero(bucket == number)
        index = index[np.argsort(lengths[index], kind="stable")]
        index = np.pad(index, (0, -len(index) % rows), constant_values=-1)
        plan += [(width, share(part, shard)) for part in index.reshape(-1, rows)]
    return (pairs(source, target, index, width, width) for width, index in plan)


def _cut(sequences: Sequence[Sequence[int]], longest: int, name: str) -> Sequence[Sequence[int]]:
    long = [i for i, sequence in enumerate(sequences) if len(sequence) >= longest]
    if not long:
        return sequences
    lines = ", ".join(str(i + 1) for i in long[:8]) + (", …" if len(long) > 8 else "")
    warnings.warn(
        f"{len(long)} of {len(sequences)} lines of the {name} have more than the {longest} tokens"
        f" (end included) that the model reads, and are cut: line {lines}",
        stacklevel=3,
    )
    return [sequence[: longest - 1] for sequence in sequences]
