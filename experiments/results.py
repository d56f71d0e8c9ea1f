"""What an experiment leaves: tables on the terminal, and result.json, config.json and pictures."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attn_jax.data.files import write_atomically
from attn_jax.diagnostics.plots import save

Row = Mapping[str, Any]
"""A line of a table: what each column is called, and its number or word; None is left blank."""


def leave(
    workdir: Path, config: Any, result: Mapping[str, Any], pictures: Mapping[str, Figure]
) -> list[Path]:
    """Writes the config (a dataclass), the result and the pictures (PNG); returns their paths.

    Raises:
      ValueError: a number of the result is not finite.
    """
    texts = {"config": dataclasses.asdict(config), "result": result}
    written = [
        write_atomically(
            workdir / f"{name}.json", json.dumps(content, indent=2, allow_nan=False) + "\n"
        )
        for name, content in texts.items()
    ]
    return written + [save(figure, workdir / f"{name}.png") for name, figure in pictures.items()]


def show(title: str, rows: Sequence[Row], console: Console | None = None) -> None:
    """Prints rows as a table, numbers to four digits; the columns are those of the first row."""
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*map(_written, row.values()))
    (console or Console(highlight=False)).print(table)


def show_paths(paths: Sequence[Path], console: Console | None = None) -> None:
    """Prints where things were written, a line each."""
    console = console or Console(highlight=False)
    for path in paths:
        console.print(Text(str(path)), soft_wrap=True)


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
    return str(value)
