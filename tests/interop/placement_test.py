"""Loading onto several devices reads, for each, only its own part of the file."""

import subprocess
import sys
from pathlib import Path

import pytest

from attn_jax import interop
from tests.interop.small import GPT_, drawn

pytest.importorskip("safetensors", reason="published models are safetensors")


@pytest.mark.slow
def test_each_device_reads_its_own_part(tmp_path):
    interop.save(drawn(GPT_), tmp_path)
    script = Path(__file__).with_name("placement.py")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        capture_output=True,
        text=True,
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.stdout.strip() == "placed", done.stderr[-2000:]
