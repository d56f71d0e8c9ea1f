"""The page of a translation run: where the model looked as it read and wrote, and how it was trained."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.diagnostics.examination import counted, head_numbers, looks_and_influences
from attn_jax.diagnostics.report import Example, Map, Report, head_measures
from attn_jax.diagnostics.verdicts import CHECKS, judge
from attn_jax.models.transformer import Transformer
from attn_jax.train import State
from attn_jax.train.metrics import whole_lines
from experiments.looking import QUICK, Looked, look_into, page, translation_maps
from experiments.translate.system import System, Translation
from experiments.translate.workdir import Workdir

LONGEST = 128  # tokens of either side that are looked at
ROWS = "A row of the decoder is the token it wrote, a column what it had read."
ONE = (
    "Its one attention, of one head, is the decoder's to the source; its encoder and decoder are"
    " recurrent. It is inside the recurrence, so that no influence is measured."
)


def look(
    system: System, state: State, translations: Sequence[Translation]
) -> tuple[Looked | None, list[Example]]:
    """Every attention of the model as it reads sources and writes these translations again.

    Returns:
      What was seen, None where the model has no attention; and an example for each translation.
    """
    if not system.attends or not translations:
        return None, []
    if system.name != Transformer.__name__:
        return _recurrent(system, state, translations)
    whole = jax.jit(lambda params: params, out_shardings=system.layout.whole)
    model = system.model(jax.device_get(whole(state.averaged)))
    sides = [_as_seen(system, x.source, x.tokens) for x in translations]
    source, inputs = _batch(sides)
    looked = look_into(
        Transformer.__call__, model, source, inputs, real=_real(source, inputs), causal=("decoder",)
    )
    pieces, eos = system.tokenizer.pieces, system.tokenizer.eos
    examples = []
    for row, (read, written) in enumerate(sides):
        wrote = [*written[1:], eos]
        maps = translation_maps(looked, row, *map(pieces, (read, written, wrote)))
        examples.append(Example(_title(system, translations[row]), maps))
    return looked, examples


def translation_page(
    system: System,
    looked: Looked | None,
    examples: Sequence[Example],
    workdir: Workdir,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Report:
    """What there is to see of a run, with its training curves and its config."""
    pair = getattr(system.config.data, "pair", "")
    more: dict[str, Any] = {
        "subtitle": " ".join([f"{system.parameters:,} parameters.", *_said(system, examples)]),
        "metrics": whole_lines(workdir.path / "metrics.jsonl"),
        "tables": tables or {},
        "config": Workdir.plain(system.config),
    }
    title = f"{system.name}{f', {pair}' if pair else ''}"
    if looked is None:
        return Report(title, examples=examples, **more)
    return page(title, looked, examples, **more)


def _said(system: System, examples: Sequence[Example]) -> list[str]:
    """What there is of attention."""
    if not system.attends:
        return ["It has no attention: its decoder is given one vector."]
    if not examples:
        return []
    return [ROWS] if system.name == Transformer.__name__ else [ROWS, ONE]


def count_verdicts(
    system: System, sources: Sequence[str], targets: Sequence[str]
) -> Callable[[State], dict[str, float]]:
    """How many heads fail each check, as numbers to log while it trains; none for other models.

    Args:
      system: whose Transformer is looked at.
      sources, targets: what it reads and is made to write.
    """
    encode = system.tokenizer.encode_batch
    sides = [_as_seen(system, *pair) for pair in zip(encode(sources), encode(targets))]
    if system.name != Transformer.__name__ or not sides:
        return lambda state: {}
    source, inputs = _batch(sides)

    real = _real(source, inputs)
    jit = functools.partial(jax.jit, compiler_options=QUICK)

    @jit
    def seen(params: Any) -> Any:
        model = system.model(system.layout.gathered(params))
        return looks_and_influences(Transformer.__call__, model, source, inputs)

    @functools.partial(jit, static_argnames="kind")  # compiled once for layers that are alike
    def numbers(kind: str, look: Any, influence: Any, real: Any) -> Any:
        return head_numbers(kind, look, influence, real)._replace(positional=None)

    def count(state: State) -> dict[str, float]:
        looks, influences = seen(state.averaged)
        found = {
            path: numbers(path.split(".")[-1], look, influences[path], counted(real, path))
            for path, look in looks.items()
        }
        heads = dict.fromkeys(CHECKS, 0.0)
        for verdict in judge(jax.device_get(found), ("decoder",)):
            heads[verdict.check.name] += len(verdict.heads) or 1
        return {f"verdict_{name.replace(' ', '_')}": x for name, x in heads.items()}

    return count


def _recurrent(
    system: System, state: State, translations: Sequence[Translation]
) -> tuple[Looked, list[Example]]:
    """The attention to the source of a recurrent model: it has no other, and of one head."""
    sides = [_as_seen(system, x.source, x.tokens) for x in translations]
    source, inputs = _batch(sides)
    path, unknown = "cross_attention", jnp.full(1, jnp.nan)

    def run(params: Any) -> Any:
        seen = system.model(params).cross_look(source, inputs)
        return seen.weights(), head_numbers(path, seen, unknown, inputs != 0)

    weights, numbers = jax.device_get(jax.jit(run, compiler_options=QUICK)(state.averaged))
    measures = head_measures({path: numbers})
    for name in ("influence", "self weight", "distance"):
        del measures[name]
    pieces, eos = system.tokenizer.pieces, [system.tokenizer.eos]
    examples = []
    for x, w, (read, written) in zip(translations, weights, sides):
        queries, keys = pieces([*written[1:], *eos]), pieces(read)
        shown = Map(path, w[:, : len(queries), : len(keys)], queries, keys)
        examples.append(Example(_title(system, x), [shown]))
    return Looked({path: weights}, measures, judge({path: numbers})), examples


def _title(system: System, translation: Translation) -> str:
    return f"{system.tokenizer.decode(translation.source)} → {translation.text}"


def _as_seen(
    system: System, source: Sequence[int], target: Sequence[int]
) -> tuple[list[int], list[int]]:
    """What the encoder and the decoder are given."""
    bos, eos = system.tokenizer.bos, system.tokenizer.eos
    return [*source[: LONGEST - 1], eos], [bos, *target[: LONGEST - 1]]


def _batch(sides: Sequence[tuple[list[int], list[int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Sources and inputs, padded."""
    source, inputs = (np.zeros((len(sides), max(map(len, x))), np.int32) for x in zip(*sides))
    for i, (read, written) in enumerate(sides):
        source[i, : len(read)], inputs[i, : len(written)] = read, written
    return source, inputs


def _real(source: np.ndarray, inputs: np.ndarray) -> dict[str, Any]:
    return {"encoder": source != 0, "decoder": inputs != 0}
