"""What the README and the pages of docs show runs, and prints what it says."""

import dataclasses
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import models
from attn_jax.interop import save
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions

ROOT = Path(__file__).parents[1]
README, MODELS = ((ROOT / x).read_text(encoding="utf-8") for x in ("README.md", "docs/models.md"))
BLOCK = re.compile(r"```python\n(.*?)```", re.S)

SIZES = BlockOptions(width=24, hidden=24, heads=12, activation="gelu", epsilon=1e-12)
ROBERTA = dataclasses.replace(SIZES, epsilon=1e-5)
GPT = dataclasses.replace(ROBERTA, activation="gelu_tanh", norm="pre")
IMAGE_GPT = dataclasses.replace(GPT, activation="gelu_sigmoid", centred=False)
LM = "masked_language_model"
PUBLISHED = {
    "bert-base-uncased": (models.Bert, models.BertConfig(11, 9, 2, 1, SIZES, head=LM)),
    "roberta-base": (models.Bert, models.BertConfig(11, 9, 1, 1, ROBERTA, padding=1, head=LM)),
    "gpt2": (models.GPT, models.GPTConfig(11, 9, 1, GPT)),
    "opus-mt-en-fr": (
        models.Transformer,
        models.TransformerConfig(11, None, 1, 1, ROBERTA, interleaved=False, output_bias=True),
    ),
    "longformer-base-4096": (
        models.Longformer,
        models.LongformerConfig(11, 12, 1, 1, ROBERTA, padding=1, head=LM, windows=(4,)),
    ),
    "bigbird-roberta-base": (
        models.BigBird,
        models.BigBirdConfig(11, 9, 2, 1, SIZES, head=LM, seed=None),
    ),
    "vit-base-patch16-224": (
        models.ViT,
        models.ViTConfig(
            patch=32,
            layers=1,
            classes=3,
            blocks=dataclasses.replace(SIZES, norm="pre", dropout=0.0),
        ),
    ),
    "swin-tiny-patch4-window7-224": (
        models.Swin,
        models.SwinConfig(patch=8, classes=3, width=6, depths=(1, 1), heads=(1, 2)),
    ),
    "imagegpt-small": (models.ImageGPT, models.ImageGPTConfig(7, 16, 1, IMAGE_GPT)),
}
"""What the directories of docs/models.md hold here, small."""


@pytest.mark.slow
def test_every_block_of_python_runs_one_after_another(capsys, tmp_path, monkeypatch):
    pytest.importorskip("safetensors", reason="pip install safetensors")
    monkeypatch.chdir(tmp_path)
    tiny = BertConfig(8_000, blocks=BlockOptions(width=16, hidden=16, heads=2), layers=1)
    save(Bert(tiny, rngs=nnx.Rngs(0)), tmp_path / "bert-base-uncased")
    config = TransformerConfig(11, None, 2, 2, BlockOptions(width=16, hidden=16, heads=8))
    scope = {"model": Transformer(config, rngs=nnx.Rngs(0))}
    for block in BLOCK.findall(README):
        exec(compile(block, "README.md", "exec"), scope)
    promised = re.search(r"# (w = .*)", README)[1]
    assert promised in capsys.readouterr().out
    assert scope["loss"].lower(scope["w"]).compile().memory_analysis().temp_size_in_bytes < 2**24
    tokens = jax.numpy.ones((1, 3), int)
    assert scope["states"].shape == (1, 3, 16)
    assert scope["model"](tokens, tokens).shape == (1, 3, 11)


def write(kind, config, directory):
    """A model whose every number is drawn."""
    graph, state = nnx.split(nnx.eval_shape(lambda: kind(config, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    numbers = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), x.dtype), state)
    save(nnx.merge(graph, numbers), directory)


@pytest.mark.slow
def test_every_model_is_shown_and_prints_what_it_is(capsys, tmp_path, monkeypatch):
    pytest.importorskip("safetensors", reason="pip install safetensors")
    monkeypatch.chdir(tmp_path)
    for name, (kind, config) in PUBLISHED.items():
        write(kind, config, tmp_path / name)
    blocks, scope = BLOCK.findall(MODELS), {}
    for block in blocks:
        exec(compile(block, "docs/models.md", "exec"), scope)
        printed = block.count("print(")
        promised = re.findall(r"^ *print\(.*\)(?:  |\n)# (.*)$", block, re.M)
        assert capsys.readouterr().out.splitlines() == promised
        assert len(promised) == printed
    shown = set(re.findall(r"models\.(\w+)", "".join(blocks)))
    assert {name for name in models.__all__ if not name.endswith("Config")} - shown == {"ResNet"}


PAGES = {name: (ROOT / f"docs/{name}.md").read_text("utf-8") for name in ("tour", "tour.zh")}


@pytest.mark.slow
def test_the_tour_runs_and_prints_what_it_says(capsys):
    scope = {}
    for block in BLOCK.findall(PAGES["tour"]):
        exec(compile(block, "docs/tour.md", "exec"), scope)
        promised = re.findall(r"^(?: *print\(.*\)  )?# (.*)$", block, re.M)
        assert capsys.readouterr().out.splitlines() == promised


def test_the_tour_is_the_same_in_both_languages():
    english, chinese = PAGES.values()
    assert BLOCK.findall(english) == BLOCK.findall(chinese)
    for pattern in (r"\$\$.*?\$\$", r"\]\(([^#)]+\.png)\)", r"`python -m [^`]+`", r"^## \d+\."):
        found = [re.findall(pattern, page, re.M | re.S) for page in (english, chinese)]
        assert found[0] == found[1] != []
    for page in PAGES.values():
        for target in re.findall(r"\]\(([^)#]+)\)", page):
            assert (ROOT / "docs" / target).exists(), target
