"""Tables of names: how tensors lie, and which lines a model has parameters for."""

import numpy as np
import pytest

from attn_jax.interop.layouts import Layout, conv1d, expand, linear

LAYOUTS = {
    "as it is": (Layout(), (4, 6), 1),
    "a vector": (Layout(), (6,), 3),
    "transposed": (Layout((1, 0)), (4, 6), 1),
    "fused": (Layout(), (4, 6), 3),
    "fused and transposed": (Layout((1, 0)), (4, 6), 3),
    "an image's kernel": (Layout((2, 3, 1, 0)), (3, 2, 5, 4), 1),
    "behind an axis of one": (Layout(leading=1), (4, 6), 1),
    "a number": (Layout(), (), 1),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_any_piece_of_a_parameter_is_read_from_its_place_in_the_tensor(case):
    layout, shape, parts = LAYOUTS[case]
    rng = np.random.default_rng(0)
    parameters = [rng.normal(size=shape) for _ in range(parts)]
    tensor = layout.published(parameters)
    assert tensor.shape == layout.published_shape(shape, parts)
    piece = tuple(slice(n // 2, None) for n in shape)
    for part, parameter in enumerate(parameters):
        for index in (piece, (slice(None),) * len(shape)):
            read = layout.ours(tensor[layout.where(part, shape, index)])
            np.testing.assert_array_equal(read, parameter[index])


def test_torch_and_gpt2_lie_as_they_do():
    kernel = np.arange(6.0).reshape(2, 3)
    (transposed, _), (same, _) = linear("a", "b"), conv1d("a", "b")
    np.testing.assert_array_equal(transposed.layout.published([kernel]), kernel.T)
    np.testing.assert_array_equal(same.layout.published([kernel, kernel]), np.tile(kernel, 2))


def test_a_table_is_read_for_the_layers_there_are_and_every_parameter_has_a_name():
    table = linear("h.{i}.qkv", "layers.{i}.query", "layers.{i}.key")
    names = [f"layers.{i}.{part}.kernel" for i in (0, 11) for part in ("query", "key")]
    held = expand(table, dict.fromkeys(names))
    assert [(h.name, h.paths) for h in held] == [
        ("h.0.qkv.weight", ("layers.0.query.kernel", "layers.0.key.kernel")),
        ("h.11.qkv.weight", ("layers.11.query.kernel", "layers.11.key.kernel")),
    ]
    with pytest.raises(
        ValueError, match=r"no published name .* extra\.scale, layers\.0\.out\.bias"
    ):
        expand(table, dict.fromkeys([*names, "layers.0.out.bias", "extra.scale"]))
