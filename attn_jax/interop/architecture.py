"""What is known of a published architecture: data, read in both directions."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flax import nnx

from attn_jax.interop.layouts import Entries

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Published names of activations, and ours; the first of several is written."""


TRAINED = ("dropout", "attention_dropout", "activation_dropout", "saved", "scanned")
"""Fields of ours that say how a model is trained, and nothing of what it computes."""


def same(given: Any) -> Any:
    """What is given, as it is."""
    return given


class Published(NamedTuple):
    """A class of an architecture: its head.

    Args:
      decides: fields of our config, and what they are in this class.
      entries: the table of its tensors besides those that all classes have.
      bare: whether its files leave out the prefix of the body.
    """

    decides: Mapping[str, Any] = {}
    entries: Entries = ()
    bare: bool = False


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One published architecture.

    Args:
      name: its `model_type` in config.json.
      model: the class of ours that it is, called as ``model(config, rngs=rngs)``; what it makes has
        the config as its attribute `config`.
      config: ours, with what a config.json may leave out.
      fields: from a field of config.json to one of ours, ``"hidden_size": "blocks.width"``. The
        field `num_labels` is read from and written as `id2label`.
      classes: from the name in `architectures` to what is particular to it.
      entries: the table of the tensors that all classes have.
      prefix: what the names of the tensors of the body begin with, which some files leave out.
      required: fields of config.json, and the only values that are understood.
      unused: patterns (fnmatch) of published tensors that are no parameters, or of parts not built.
      renamed: endings that older files have, and what they are called now.
      tied: tensors that may be there though they only repeat another.
      complete: fills in fields of config.json that follow from others.
      form: of a model of ours, one that computes the same and is made as published ones are.
    """

    name: str
    model: Callable[..., nnx.Module]
    config: Any
    fields: Mapping[str, str]
    classes: Mapping[str, Published]
    entries: Entries
    prefix: str = ""
    required: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    complete: Callable[[dict[str, Any]], dict[str, Any]] = same
    form: Callable[[Any], Any] = same

    def read_config(self, published: Mapping[str, Any], name: str) -> Any:
        """Our config of a class of this architecture, from what its config.json says.

        Raises:
          ValueError: naming each field whose value is not understood.
        """
        given = dict(published)
        if "id2label" in given:
            given["num_labels"] = len(given["id2label"])
        given = self.complete(given)
        strange = [
            f"{field} = {given[field]!r}, expected {value!r}"
            for field, value in self.required.items()
            if field in given and given[field] != value
        ]
        config = self.config
        for field, path in self.fields.items():
            if field not in given:
                continue
            value = given[field]
            if path.endswith("activation"):
                if value not in ACTIVATIONS:
                    strange.append(f"{field} = {value!r}, expected one of {', '.join(ACTIVATIONS)}")
                    continue
                value = ACTIVATIONS[value]
            config = _with(config, path.split("."), value)
        if strange:
            raise ValueError(f"{name}: config.json has {'; '.join(strange)}")
        return dataclasses.replace(config, **self.classes[name].decides)

    def class_of(self, config: Any) -> str | None:
        """The published class of a config of ours; None where it is none of this architecture's."""
        for name, published in self.classes.items():
            if all(getattr(config, field) == value for field, value in published.decides.items()):
                return name
        return None

    def write_config(self, config: Any, name: str) -> dict[str, Any]:
        """The config.json of a config of ours."""
        spelled = {ours: published for published, ours in reversed(ACTIVATIONS.items())}
        written = {"model_type": self.name, "architectures": [name], **self.required}
        for field, path in self.fields.items():
            value = config
            for part in path.split("."):
                value = getattr(value, part)
            written[field] = spelled[value] if path.endswith("activation") else value
        if (labels := written.pop("num_labels", None)) is not None:
            written["id2label"] = {str(i): f"LABEL_{i}" for i in range(labels)}
            written["label2id"] = {f"LABEL_{i}": i for i in range(labels)}
        return written

    def check_config(self, config: Any, name: str) -> None:
        """Raises ValueError, naming each field, where a config.json cannot say what ours says."""
        read = _leaves(self.read_config(self.write_config(config, name), name))
        lost = [
            f"{field} is {value!r}, which config.json would read as {read[field]!r}"
            for field, value in _leaves(config).items()
            if value != read[field] and field.split(".")[-1] not in TRAINED
        ]
        if lost:
            raise ValueError(f"{name} has no place for what the model is: {'; '.join(lost)}")

    def table(self, name: str) -> Entries:
        """All the tensors of a class."""
        return (*self.entries, *self.classes[name].entries)

    def canonical(self, name: str) -> str:
        """The name of a tensor in a file as newer files have it, prefix aside."""
        for old, new in self.renamed.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def is_unused(self, name: str) -> bool:
        """Whether a tensor of a file is known to be no parameter of ours."""
        bare = name.removeprefix(self.prefix)
        return any(fnmatch.fnmatchcase(n, p) for p in self.unused for n in (name, bare))


def _leaves(config: Any, path: str = "") -> dict[str, Any]:
    """The fields of a config by path, ``blocks.width``."""
    if not dataclasses.is_dataclass(config):
        return {path: config}
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        below = f"{path}.{field.name}" if path else field.name
        fields |= _leaves(getattr(config, field.name), below)
    return fields


def _with(config: Any, path: list[str], value: Any) -> Any:
    """The config with the field at a path replaced."""
    if len(path) > 1:
        value = _with(getattr(config, path[0]), path[1:], value)
    return dataclasses.replace(config, **{path[0]: value})
