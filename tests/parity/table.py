"""The record of what was compared, and the page it makes."""

import math

HEADER = """# Agreement with the published models

Written by the tests: `PARITY_TABLE=docs/parity.md pytest tests/parity`. A small model of each kind,
in several configurations, every number of it drawn anew at a scale that makes attention far from
uniform, is written by the twin, loaded here, and compared in float64. Differences are relative to
the largest number compared, gradients to the largest gradient of the model, rounded up to a power
of ten; the largest of all configurations is shown. The twin is the class of that name in
`transformers` on torch, or, where no such class is named, the paper's formulas written in torch or
numpy. "Saved back" are the twin's logits after the model was written here and read by the twin.

What `transformers` computes in float32 whatever the dtype of the model, the softmax of ViT, DeiT,
Swin and Longformer and the loss of GPT-2, is computed in float64 here.

"""

Record = dict[tuple[str, str], float | str]


def note(record: Record, architecture: str, what: str, difference: float | str) -> None:
    """Keeps the largest difference; a text, such as "equal", stays as it is."""
    key = (architecture, what)
    if isinstance(difference, str) or key not in record:
        record[key] = difference
    else:
        record[key] = max(record[key], difference)


def page(record: Record) -> str:
    """One row an architecture, one column a thing compared, both in the order of their names."""
    columns = sorted({what for _, what in record})
    rows = sorted({architecture for architecture, _ in record})
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = [_rounded(record.get((row, column), "")) for column in columns]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return HEADER + "\n".join(lines) + "\n"


def _rounded(difference: float | str) -> str:
    if isinstance(difference, str):
        return difference
    return "0" if difference == 0 else f"1e{math.ceil(math.log10(difference)):+03d}"
