"""Gated recurrent units and additive attention beside torch's, same weights in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.modules.recurrent import BidirectionalGRU

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow
LENGTHS = (7, 3, 5)


def load(cell, twin, suffix=""):
    """torch's parameters in our cell; both have the parts in the order r, z, n."""
    for part, name in ((cell.inputs, "ih"), (cell.recurrence, "hh")):
        weight, bias = (getattr(twin, f"{kind}_{name}{suffix}") for kind in ("weight", "bias"))
        part.kernel[...] = jnp.asarray(weight.detach().numpy().T)
        part.bias[...] = jnp.asarray(bias.detach().numpy())


def test_states_and_gradients_are_those_of_a_packed_bidirectional_gru():
    torch.manual_seed(0)
    twin = torch.nn.GRU(5, 6, batch_first=True, bidirectional=True)
    ours = BidirectionalGRU(5, 6, rngs=nnx.Rngs(0))
    load(ours.forward, twin, "_l0")
    load(ours.backward, twin, "_l0_reverse")
    x = torch.randn(3, 7, 5, requires_grad=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False
    )
    states, last = twin(packed)
    states, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    weight = torch.randn_like(states)
    (states * weight).sum().backward()

    real = np.arange(7) < np.array(LENGTHS)[:, None]
    graph, params = nnx.split(ours)

    def total(params, x):
        found = nnx.merge(graph, params)(x, real=real)
        return (found * weight.numpy() * real[..., None]).sum(), found

    gradients, found = jax.jit(jax.grad(total, (0, 1), has_aux=True))(params, x.detach().numpy())
    np.testing.assert_allclose(found * real[..., None], states.detach(), atol=1e-5)
    np.testing.assert_allclose(found[:, -1, :6], last[0].detach(), atol=1e-5)
    np.testing.assert_allclose(found[:, 0, 6:], last[1].detach(), atol=1e-5)
    np.testing.assert_allclose(gradients[1], x.grad, atol=1e-5)
    recurrent = gradients[0]["backward"]["recurrence"]["kernel"][...]
    np.testing.assert_allclose(recurrent.T, twin.weight_hh_l0_reverse.grad, atol=1e-4)


def test_one_step_is_that_of_a_cell():
    torch.manual_seed(1)
    twin = torch.nn.GRUCell(5, 6)
    ours = BidirectionalGRU(5, 6, rngs=nnx.Rngs(1)).forward
    load(ours, twin)
    x, state = torch.randn(4, 5), torch.randn(4, 6)
    found = ours.step(ours.inputs(x.numpy()), state.numpy())
    np.testing.assert_allclose(found, twin(x, state).detach(), atol=1e-6)
