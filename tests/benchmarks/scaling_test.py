"""Weak scaling as compiled programs say: what the table of docs/scaling.md rests on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scaling import VOCABULARY, WIDTH, bytes_of, collectives

PROGRAM = """
  %a.1 = (f32[2,3]{1,0}, f32[2,3]{1,0}, /*index=2*/s32[]) all-reduce(%x, %y, %z), channel_id=1
  %b = f32[4,3]{1,0} all-gather-start(%a), dimensions={0}
  %c = f32[9]{0} add(%p, %q), metadata={op_name="all-reduce(no)"}
"""


def test_the_collectives_of_a_program_are_told_by_kind_and_shape():
    found = collectives(PROGRAM)
    assert found == {"all-reduce": {"f32[2,3]": 2, "s32[]": 1}, "all-gather": {"f32[4,3]": 1}}
    assert [bytes_of(shapes) for shapes in found.values()] == [52, 48]


@pytest.mark.slow
def test_two_devices_sum_each_gradient_once_but_the_shared_tables_three_times(tmp_path):
    command = [sys.executable, "-m", "benchmarks.scaling", "--devices", "2"]
    command += ["--out", str(tmp_path / "scaling")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    data, fsdp = json.loads((tmp_path / "scaling.json").read_text())["records"]
    size, table = data["parameter_bytes"], f"f32[{VOCABULARY},{WIDTH}]"
    for record in (data, fsdp):
        reduced = record["collectives"]["all-reduce"]
        assert reduced[table] == 3
        assert 0 <= bytes_of(reduced) - size - 2 * bytes_of({table: 1}) < 1024  # single numbers
    assert "all-gather" not in data["collectives"]
    assert 0.98 * size < bytes_of(fsdp["collectives"]["all-gather"]) < size
    assert fsdp["state_bytes"] < 0.52 * data["state_bytes"]
    assert "| fsdp | 2 |" in (tmp_path / "scaling.md").read_text()
