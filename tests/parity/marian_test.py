"""A Transformer is what `transformers` says a MarianMT is: outputs, gradients, and translations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Rule, interop, masks, normalizers
from attn_jax.decode import Beam, Specials
from attn_jax.decode.translate import TargetLength, translate
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.watching import capture
from tests.parity.twin import (
    IGNORED,
    QUICK,
    Outputs,
    Twins,
    compare,
    cross_entropy,
    redraw,
    torch,
    transformers,
)

pytestmark = pytest.mark.slow

PAD, END = 30, 0
SIZES = dict(
    vocab_size=31, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=40,
    pad_token_id=PAD, eos_token_id=END, forced_eos_token_id=END, decoder_start_token_id=PAD,
    scale_embedding=True, activation_function="swish", attn_implementation="eager",
)  # fmt: skip
CASES = {
    "swish, scaled": {},
    "relu, not scaled, four heads": dict(
        activation_function="relu", scale_embedding=False, encoder_attention_heads=4,
        decoder_attention_heads=4, decoder_layers=2, encoder_layers=1,
    ),
}  # fmt: skip
REAL = np.arange(9) < np.array([[9], [5], [1]])
SOURCE = np.where(REAL, np.random.default_rng(0).integers(1, PAD, REAL.shape), PAD)


def twin(seed=0, **options):
    """A small MarianMT of drawn numbers, in float64, with the sinusoids it has."""
    theirs = redraw(transformers.MarianMTModel(transformers.MarianConfig(**SIZES | options)), seed)
    for stack in (theirs.model.encoder, theirs.model.decoder):
        stack.embed_positions.weight.data.copy_(stack.embed_positions.create_weight())
    theirs.final_logits_bias.requires_grad_()  # a buffer, but as good as a parameter
    return theirs


def states_of(model, source, inputs):
    """What each block of the encoder and of the decoder is given, and what the last ones give."""
    mask = model.memory_mask(source)
    places = (jnp.arange(ids.shape[1]) for ids in (source, inputs))
    read = [model.source_positions(model.source_embedding(source), next(places))]
    for block in model.encoder:
        read.append(block(read[-1], mask=mask))
    written = [model.target_positions(model.target_embedding(inputs), next(places))]
    for block in model.decoder:
        written.append(block(written[-1], read[-1], memory_mask=mask))
    return tuple(read), tuple(written)


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, tmp_path, record):
    theirs = twin(**CASES[case])
    twins = Twins(theirs, tmp_path, record)
    rng = np.random.default_rng(len(case))
    target = np.where(np.arange(7) < np.array([[7], [3], [5]]), rng.integers(1, PAD, (3, 7)), PAD)
    inputs = np.concatenate([np.full((3, 1), PAD), target[:, :-1]], axis=1)
    labels = np.where(target == PAD, IGNORED, target)

    def call(model):
        logits, looks = capture(Transformer.__call__, model, SOURCE, inputs)
        maps = {path: look.weights() for path, look in looks.items()}
        told = model.cross_attention(SOURCE, inputs)
        states = states_of(model, SOURCE, inputs)
        return Outputs(cross_entropy(logits, labels), logits, states, (maps, told))

    ours, gradients = twins.run(call)
    asked = dict(
        input_ids=torch.tensor(SOURCE),
        attention_mask=torch.tensor(REAL).long(),
        labels=torch.tensor(labels),
        output_attentions=True,
        output_hidden_states=True,
    )
    told = theirs(**asked)
    told.loss.backward()
    twins.same("loss", ours.loss, told.loss)
    twins.same("logits", ours.logits, told.logits)
    for found, right in zip(
        ours.hidden_states, (told.encoder_hidden_states, told.decoder_hidden_states)
    ):
        twins.same("hidden states", found, right)
    maps, across = ours.attentions
    for kind, right in {
        "encoder.{}.self_attention": told.encoder_attentions,
        "decoder.{}.self_attention": told.decoder_attentions,
        "decoder.{}.cross_attention": told.cross_attentions,
    }.items():
        twins.same("attention maps", tuple(maps[kind.format(i)] for i in range(len(right))), right)
    twins.same("attention maps", across, told.cross_attentions)
    bias = gradients.pop("final_logits_bias")
    twins.same("gradients", bias, theirs.final_logits_bias.grad)
    twins.same_gradients(gradients)
    returned = saved(twins.ours, tmp_path / "ours")
    with torch.no_grad():
        twins.same("saved back", returned(**asked).logits.numpy(), told.logits)


def saved(model, directory):
    """A model written here and read by `transformers`."""
    interop.save(model, directory)
    return transformers.MarianMTModel.from_pretrained(directory, dtype=torch.float64).eval()


def check_translations(theirs, ours, specials, length=16):
    """Greedy and beam search end where the twin's end."""
    graph, state = nnx.split(ours)
    source = np.where(REAL, SOURCE, specials.pad)
    for beams in (1, 3):

        def search(state, beams=beams):
            options = None if beams == 1 else Beam(beams, length_penalty=0.0)
            limit = TargetLength(0.0, length, length)
            return translate(
                nnx.merge(graph, state), source, options, length=limit, specials=specials
            )

        found = jax.jit(search, compiler_options=QUICK)(state).tokens[:, 0]
        told = theirs.generate(
            torch.tensor(source), attention_mask=torch.tensor(REAL).long(), do_sample=False,
            num_beams=beams, max_new_tokens=length, length_penalty=0.0,
        )[:, 1:].numpy()  # fmt: skip
        told = np.pad(told, ((0, 0), (0, length - told.shape[1])), constant_values=specials.pad)
        np.testing.assert_array_equal(found, told)
        lengths = (told == specials.eos).argmax(-1)
        assert len(set(lengths)) > 1, told
        assert lengths.max() < length - 1, told


def wander(block, seed):
    """Makes the next word of a twin depend on the last, so that translations differ and end."""
    drawn = torch.randn(16, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        block.final_layer_norm.weight.copy_(2 * drawn)
        for linear in (block.fc2, block.self_attn.out_proj, block.encoder_attn.out_proj):
            linear.weight *= 0.4
        for norm in (
            block.self_attn_layer_norm, block.encoder_attn_layer_norm, block.final_layer_norm,
        ):  # fmt: skip
            norm.bias *= 0.2


def test_translations_are_the_twins_and_stay_so_when_saved(x64, tmp_path, record):
    theirs = twin(seed=28, eos_token_id=15, forced_eos_token_id=15)
    theirs.generation_config.bad_words_ids = [[PAD]]
    wander(theirs.model.decoder.layers[0], seed=28)
    twins = Twins(theirs, tmp_path, record)
    specials = Specials(PAD, PAD, 15)
    check_translations(theirs, twins.ours, specials)
    check_translations(saved(twins.ours, tmp_path / "ours"), twins.ours, specials)
    twins.record("greedy search", "same tokens")
    twins.record("beam search", "same tokens")


BLOCKS = BlockOptions(width=16, hidden=24, heads=2, epsilon=1e-5)
OURS = TransformerConfig(31, None, 1, 1, BLOCKS)


def drawn(config, **rules):
    """A Transformer of the paper, every number drawn."""
    graph, state = nnx.split(nnx.eval_shape(lambda: Transformer(config, **rules, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(5)
    return nnx.merge(graph, jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), state))


def test_a_transformer_of_the_paper_is_exported(x64, tmp_path):
    """Its sinusoids are interleaved, its logits have no bias, and targets begin with a token."""
    ours = drawn(OURS)
    theirs = saved(ours, tmp_path)
    source, inputs = np.where(REAL, SOURCE, 0), np.array([[1, 7, 8], [1, 9, 3], [1, 4, 4]])
    with torch.no_grad():
        told = theirs(
            torch.tensor(source), torch.tensor(REAL).long(), decoder_input_ids=torch.tensor(inputs)
        )
    compare(jax.jit(ours)(source, inputs), told.logits.numpy())
    compare(jax.jit(interop.load(tmp_path))(source, inputs), told.logits.numpy())
    assert theirs.config.decoder_start_token_id == 1
    assert theirs.generation_config.bad_words_ids == [[0], [1]]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (dataclasses.replace(OURS, positions="rotary"), "positions is 'rotary'"),
        (dataclasses.replace(OURS, target_vocabulary=9), "target_vocabulary is 9"),
        (
            dataclasses.replace(OURS, blocks=dataclasses.replace(BLOCKS, norm="pre")),
            "norm is 'pre'",
        ),
        (
            dataclasses.replace(OURS, blocks=dataclasses.replace(BLOCKS, epsilon=1e-6)),
            "epsilon is 1e-06, which config.json would read as 1e-05",
        ),
    ],
)
def test_what_marian_is_not_is_refused(config, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        interop.save(drawn(config), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_rule_that_marian_has_not_is_refused(tmp_path):
    rule = Rule(mask=masks.window(2, 2), normalizer=normalizers.sparsemax())
    with pytest.raises(ValueError, match=r"encoder\.0\.self_attention\.rule is .*window\(2, 2\)"):
        interop.save(drawn(OURS, rule=rule), tmp_path)
