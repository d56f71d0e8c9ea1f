"""A published model and ours made of its files: everything that can be compared, compared."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from attn_jax import interop
from attn_jax.interop.saving import published

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="the published models run on torch")
    transformers = pytest.importorskip("transformers", reason="it holds the published models")
    core_model_loading = pytest.importorskip("transformers.core_model_loading")
    pytest.importorskip("safetensors", reason="published models are safetensors")

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

QUICK = {"xla_backend_optimization_level": 0}  # compiles in half the time
IGNORED = -100  # the label of a position that is not in the loss


@dataclasses.dataclass
class Outputs:
    """What a model gave, in numpy; the names are those of `transformers`."""

    loss: Any = None
    logits: Any = None
    hidden_states: Any = None
    attentions: Any = None


def redraw(theirs: Any, seed: int = 0) -> Any:
    """Every number of a torch model drawn anew, in float64, so that attention is far from uniform.

    Embeddings of padding learn as others do, which torch would leave out.
    """
    theirs = theirs.double().eval()
    for module in theirs.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in [*theirs.named_parameters(), *theirs.named_buffers()]:
        if not parameter.is_floating_point():
            continue
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.ndim > 1:
            drawn = noise * (1.0 if "embed" in name else 2.0 * parameter[0].numel() ** -0.5)
        elif name.endswith(("weight", "running_var")):
            drawn = torch.exp(0.3 * noise)
        else:
            drawn = 0.3 * noise
        with torch.no_grad():
            parameter.copy_(drawn)
    theirs.tie_weights()
    return theirs


def compare(ours: Any, theirs: Any, tolerance: float = 1e-5) -> float:
    """The largest difference relative to the largest number; raises where it is over a tolerance."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert np.isfinite(theirs).all()
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    assert difference <= tolerance, f"differs by {difference:.1e} of the largest number"
    return difference


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean over the labels that are not ignored."""
    real = labels != IGNORED
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.where(real, labels, 0))
    return (losses * real).sum() / real.sum()


class Twins:
    """Checks a torch model against ours.

    Args:
      theirs: a class of `transformers`, in float64, its numbers drawn; eager.
      directory: an empty one to write to.
      record: the fixture.
    """

    def __init__(self, theirs: Any, directory: Any, record: Callable[..., None]) -> None:
        self.theirs, self.directory = theirs, directory
        self.name = type(theirs).__name__
        self.record = lambda what, difference: record(self.name, what, difference)
        theirs.save_pretrained(directory / "theirs")
        self.ours = interop.load(directory / "theirs")

    def check(self, call: Callable[[Any], Outputs], inputs: dict[str, Any]) -> None:
        """All outputs, the loss's gradients, and the logits after saving back.

        Args:
          call: what our model gives, as jax arrays; what is None is not compared.
          inputs: what the twin is called with, numpy arrays by name; with `labels`.
        """
        ours, gradients = self.run(call)
        theirs = self.theirs(
            **_tensors(inputs),
            output_hidden_states=True,
            output_attentions=ours.attentions is not None,
        )
        self.theirs.zero_grad()
        theirs.loss.backward()
        self.same("loss", ours.loss, theirs.loss)
        self.same("logits", ours.logits, theirs.logits)
        if ours.hidden_states is not None:
            self.same("hidden states", ours.hidden_states, theirs.hidden_states)
        if ours.attentions is not None:
            self.same("attention maps", ours.attentions, theirs.attentions)
            assert_peaked(ours.attentions)
        self.same_gradients(gradients)
        self.check_saved(inputs, theirs.logits)

    def run(self, call: Callable[[Any], Outputs]) -> tuple[Outputs, dict[str, np.ndarray]]:
        """Our outputs, and the gradients of the loss by published name."""
        graph, parameters, rest = nnx.split(self.ours, nnx.Param, ...)

        def loss(parameters: Any) -> tuple[Any, Any]:
            outputs = call(nnx.merge(graph, parameters, rest))
            return outputs.loss, dataclasses.astuple(outputs)

        graded = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=QUICK)
        (_, outputs), gradients = graded(parameters)
        tensors = published(nnx.merge(graph, gradients, rest))
        return Outputs(*outputs), {name: tensor.array() for name, tensor in tensors.items()}

    def same(self, what: str, ours: Any, theirs: Any) -> None:
        """Compares an output, or a tuple of them, and records the difference."""
        if not isinstance(theirs, tuple):
            ours, theirs = (ours,), (theirs,)
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs):
            self.record(what, compare(our, their.detach().numpy()))

    def same_gradients(self, ours: dict[str, np.ndarray], tolerance: float = 1e-4) -> None:
        """Every parameter's gradient, relative to the largest of the model."""
        drawn = {
            name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for name, parameter in self.theirs.named_parameters()
        }
        written = core_model_loading.revert_weight_conversion(self.theirs, drawn)  # as in files
        theirs = {name: gradient.numpy() for name, gradient in written.items()}
        largest = max(np.abs(gradient).max() for gradient in theirs.values())
        for name, gradient in theirs.items():
            our = ours.pop(name, np.zeros(gradient.shape))
            difference = float(np.abs(our - gradient).max() / largest)
            assert difference <= tolerance, f"the gradient of {name} differs by {difference:.1e}"
            self.record("gradients", difference)
        assert not ours, f"the twin has no {', '.join(ours)}"

    def check_saved(self, inputs: dict[str, Any], logits: Any) -> None:
        """Written by us and read by `transformers`, the model gives the same logits."""
        interop.save(self.ours, self.directory / "ours")
        returned, told = type(self.theirs).from_pretrained(
            self.directory / "ours", dtype=torch.float64, output_loading_info=True
        )
        assert not told["unexpected_keys"]
        assert not told["mismatched_keys"]
        assert not {
            n
            for n in told["missing_keys"]
            if dict(self.theirs.named_parameters())[n].grad is not None
        }
        with torch.no_grad():
            again = returned.eval()(**_tensors(inputs)).logits
        self.same("saved back", again.numpy(), logits)


def assert_peaked(maps: Any) -> None:
    """Attention far from uniform: the largest weight of a query is half of all, on average.

    Of queries that see anything, as padding may not.
    """
    largest = [np.asarray(w).max(-1) for w in maps]
    assert np.mean([w[w > 0].mean() for w in largest]) > 0.5


def _tensors(inputs: dict[str, Any]) -> dict[str, Any]:
    """Torch tensors of float64 or int64."""
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    return {
        name: torch.tensor(array.astype(np.float64 if array.dtype.kind == "f" else np.int64))
        for name, array in arrays.items()
    }
