import dataclasses
import io
import json
import math

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from experiments.results import leave, show, show_paths


@dataclasses.dataclass
class Config:
    seed: int = 3
    sizes: tuple[int, ...] = (1, 2)


def test_a_run_leaves_its_config_its_result_and_its_pictures(tmp_path):
    paths = leave(tmp_path / "new", Config(), {"loss": 0.5}, {"curve": Figure()})
    assert [path.name for path in paths] == ["config.json", "result.json", "curve.png"]
    assert json.loads(paths[0].read_text()) == {"seed": 3, "sizes": [1, 2]}
    assert json.loads(paths[1].read_text()) == {"loss": 0.5}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in paths
    )


def test_what_is_no_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="nan"):
        leave(tmp_path, Config(), {"loss": math.nan}, {})
    assert not (tmp_path / "result.json").exists()


def test_rows_are_a_table_and_paths_lines_that_do_not_wrap(tmp_path):
    console = Console(file=io.StringIO(), width=60)
    show(
        "Losses",
        [{"name": "a", "loss": 0.123456, "steps": 10_000, "of": None, "far": 12_345.6}],
        console,
    )
    show("Nothing", [], console)
    path = tmp_path / ("long" * 30)
    show_paths([path], console)
    said = console.file.getvalue()
    assert "Losses" in said
    assert all(word in said for word in ("name", "a", "0.1235", "10000", "12,346"))
    assert "None" not in said
    assert "Nothing" not in said
    assert str(path) in said.splitlines()
