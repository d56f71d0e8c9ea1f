"""Published directories: read back as written, or refused with each thing named."""

import json
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import interop, masks
from attn_jax.interop.checkpoint import Checkpoint
from tests.interop.small import BERT, GPT_, drawn, parameters

safetensors = pytest.importorskip("safetensors.numpy", reason="published models are safetensors")


@pytest.fixture
def bert(tmp_path):
    interop.save(drawn(BERT), tmp_path)
    return tmp_path


@pytest.fixture
def gpt(tmp_path):
    interop.save(drawn(GPT_), tmp_path)
    return tmp_path


def rewrite(directory, change):
    """The directory with its tensors changed, a dictionary of arrays by name."""
    path = directory / "model.safetensors"
    safetensors.save_file(change(safetensors.load_file(path)), path)


def reconfigure(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def equal(loaded, config):
    assert type(loaded.config) is type(config)
    chex.assert_trees_all_equal(parameters(loaded), parameters(drawn(config)))


@pytest.mark.parametrize("config", [BERT, GPT_], ids=["bert", "gpt"])
def test_what_was_saved_is_loaded_bit_for_bit(config, tmp_path):
    interop.save(drawn(config), tmp_path)
    loaded = interop.load(tmp_path)
    equal(loaded, config)
    assert loaded.config.blocks.epsilon == config.blocks.epsilon


def test_a_dtype_is_that_of_the_file_unless_asked_for(bert, tmp_path):
    half = interop.load(bert, dtype=jnp.bfloat16)
    assert {x.dtype.name for x in parameters(half).values()} == {"bfloat16"}
    interop.save(half, tmp_path / "half")
    chex.assert_trees_all_equal(parameters(interop.load(tmp_path / "half")), parameters(half))


def test_shards_are_found_through_their_index(gpt):
    tensors = safetensors.load_file(gpt / "model.safetensors")
    (gpt / "model.safetensors").unlink()
    names = sorted(tensors)
    weights = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(names)}
    for file in set(weights.values()):
        safetensors.save_file({n: t for n, t in tensors.items() if weights[n] == file}, gpt / file)
    index = gpt / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weights}))
    equal(interop.load(gpt), GPT_)
    (gpt / "model-1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model-1\.safetensors"):
        interop.load(gpt)
    index.write_text(json.dumps({"weight_map": {"wte.weight": "../model-0.safetensors"}}))
    with pytest.raises(ValueError, match="not a path"):
        interop.load(gpt)


def test_parameters_are_placed_where_it_is_asked_for(gpt):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("tensor",))
    cut, whole = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names))
        for names in ((None, "tensor"), ())
    )

    def place(parameters):
        return jax.tree.map(lambda like: cut if like.shape == (8, 12) else whole, parameters)

    loaded = interop.load(gpt, place=place)
    equal(loaded, GPT_)
    (layer,) = loaded.layers
    assert layer.feed_forward.inner.kernel[...].sharding == cut
    assert layer.feed_forward.outer.kernel[...].sharding == whole
    equal(interop.load(gpt, place=whole), GPT_)
    with pytest.raises(ValueError, match="a sharding for each parameter"):
        interop.load(gpt, place=lambda parameters: {"layers": whole})


def test_no_more_is_read_than_a_device_needs(gpt):
    checkpoint = Checkpoint(gpt)
    piece = (slice(0, 8), slice(10, 12))
    assert checkpoint.read("transformer.h.0.attn.c_attn.weight", piece).shape == (8, 2)


def test_names_of_older_files_are_understood(bert):
    def older(tensors):
        renamed = {}
        for name, tensor in tensors.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            renamed[name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
        renamed["bert.embeddings.position_ids"] = np.arange(12)[None]
        renamed["cls.seq_relationship.weight"] = np.zeros((2, 8), np.float32)
        renamed["cls.predictions.decoder.weight"] = tensors[
            "bert.embeddings.word_embeddings.weight"
        ]
        return renamed

    rewrite(bert, older)
    equal(interop.load(bert), BERT)
    rewrite(bert, lambda t: t | {"cls.predictions.decoder.weight": np.zeros((23, 8), np.float32)})
    with pytest.raises(ValueError, match=r"tied to: cls\.predictions\.decoder\.weight"):
        interop.load(bert)


def test_a_file_is_read_as_another_class_that_it_has_the_tensors_of(bert):
    """As the original files are: a language model, and a pooler that it does not read."""
    with pytest.raises(ValueError, match=r"missing tensors: bert\.pooler\.dense\.bias"):
        interop.load(bert, architecture="BertModel")
    pooler = {"bert.pooler.dense.weight": np.eye(8), "bert.pooler.dense.bias": np.zeros(8)}
    rewrite(bert, lambda t: t | {n: a.astype(np.float32) for n, a in pooler.items()})
    equal(interop.load(bert), BERT)
    encoder = interop.load(bert, architecture="BertModel")
    assert encoder.config.head is None
    np.testing.assert_array_equal(encoder.pooler.kernel[...], np.eye(8))


def test_names_without_the_prefix_and_masks_as_buffers_are_understood(gpt):
    def bare(tensors):
        tensors = {name.removeprefix("transformer."): t for name, t in tensors.items()}
        return tensors | {"h.0.attn.bias": np.ones((1, 1, 12, 12), np.float32)}

    rewrite(gpt, bare)
    equal(interop.load(gpt), GPT_)


def test_every_tensor_that_is_amiss_is_named(gpt):
    def spoil(tensors):
        del tensors["transformer.h.0.ln_1.weight"], tensors["transformer.ln_f.bias"]
        tensors["transformer.wpe.weight"] = np.zeros((12, 4), np.float32)
        return tensors | {"strange": np.zeros(3), "transformer.h.1.ln_1.bias": np.zeros(8)}

    rewrite(gpt, spoil)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        interop.load(gpt)
    assert str(caught.value).endswith(
        "missing tensors: transformer.h.0.ln_1.weight, transformer.ln_f.bias; "
        "unexpected tensors: strange, transformer.h.1.ln_1.bias; "
        "wrong shapes: transformer.wpe.weight is (12, 4), expected (12, 8)"
    )


def test_a_model_that_is_not_known_or_not_understood_is_refused_by_name(gpt):
    said = dict(scale_attn_weights=True, activation_function="gelu_new")
    reconfigure(gpt, scale_attn_weights=False, activation_function="mish")
    with pytest.raises(
        ValueError, match=r"scale_attn_weights = False, .*activation_function = 'mish'"
    ):
        interop.load(gpt)
    reconfigure(gpt, **said)
    reconfigure(gpt, architectures=["GPT2ForQuestionAnswering"])
    heads = r"a gpt2 is read as one of GPT2LMHeadModel, GPT2Model, GPT2ForSequenceClassification"
    with pytest.raises(ValueError, match=rf"{heads}; got \['GPT2ForQuestionAnswering'\]"):
        interop.load(gpt)
    with pytest.raises(ValueError, match=rf"{heads}; got \['BertModel'\]"):
        interop.load(gpt, architecture="BertModel")
    reconfigure(gpt, architectures=None)
    with pytest.raises(ValueError, match=rf"{heads}; got \[\]. Say which"):
        interop.load(gpt)
    equal(interop.load(gpt, architecture="GPT2LMHeadModel"), GPT_)
    reconfigure(gpt, model_type="mamba")
    with pytest.raises(ValueError, match=r"model_type 'mamba'; known are bert, roberta, .*swin"):
        interop.load(gpt)
    (gpt / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is no JSON"):
        interop.load(gpt)


def test_a_pickle_is_never_read(gpt):
    (gpt / "model.safetensors").rename(gpt / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"pickle.*never read.*save_pretrained"):
        interop.load(gpt)
    (gpt / "pytorch_model.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"neither model\.safetensors nor"):
        interop.load(gpt)
    with pytest.raises(FileNotFoundError, match="no directory"):
        interop.load(gpt / "nowhere")


def test_a_file_cut_short_is_refused(gpt):
    path = gpt / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="no whole safetensors file"):
        interop.load(gpt)


def test_a_missing_package_is_named(gpt, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        interop.load(gpt)


def test_a_model_the_format_has_no_words_for_is_not_saved(tmp_path):
    model = drawn(GPT_)
    model.layers[0].self_attention.rule &= masks.window(3, 0)
    with pytest.raises(ValueError, match=r"layers\.0\.self_attention\.rule is .*window\(3, 0\)"):
        interop.save(model, tmp_path / "new")
    model = drawn(GPT_)
    model.positions = None
    with pytest.raises(ValueError, match=r"positions\.table is missing"):
        interop.save(model, tmp_path / "new")
    with pytest.raises(ValueError, match=r"no published architecture for Linear; .*Bert.* GPT"):
        interop.save(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), tmp_path / "new")
    assert not (tmp_path / "new").exists()
