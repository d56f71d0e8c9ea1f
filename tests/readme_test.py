"""What the README shows runs, and prints what it says."""

import re
from pathlib import Path

import jax
import pytest
from flax import nnx

from attn_jax.interop import save
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.slow
def test_every_block_of_python_runs_one_after_another(capsys, tmp_path, monkeypatch):
    pytest.importorskip("safetensors", reason="pip install safetensors")
    monkeypatch.chdir(tmp_path)
    tiny = BertConfig(8_000, blocks=BlockOptions(width=16, hidden=16, heads=2), layers=1)
    save(Bert(tiny, rngs=nnx.Rngs(0)), tmp_path / "bert-base-uncased")
    config = TransformerConfig(11, None, 2, 2, BlockOptions(width=16, hidden=16, heads=8))
    scope = {"model": Transformer(config, rngs=nnx.Rngs(0))}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), scope)
    promised = re.search(r"# (w = .*)", README)[1]
    assert promised in capsys.readouterr().out
    assert scope["loss"].lower(scope["w"]).compile().memory_analysis().temp_size_in_bytes < 2**24
    tokens = jax.numpy.ones((1, 3), int)
    assert scope["states"].shape == (1, 3, 16)
    assert scope["model"](tokens, tokens).shape == (1, 3, 11)
