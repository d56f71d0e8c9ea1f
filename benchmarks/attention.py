"""Time and memory of attention beside its peers, in one process.

    python -m benchmarks.attention --lengths 1024,4096 --out benchmarks/results/attention

Every program is compiled first, then all take turns, so that what else the machine does falls on each
alike. Reported are medians, and the median of the paired ratios to blockwise with a bootstrap interval
of 95 %. Memory is what the compiler planned for temporaries. Writes OUT.json, OUT.md and OUT.png.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import Rule, attend, masks, patterns, scores
from attn_jax.backends.blockwise import blockwise
from attn_jax.backends.problem import describe
from attn_jax.data.files import write_atomically
from benchmarks import timing

HEADS, DEPTH, WINDOW = 8, 64, 256


def rules(n: int) -> dict[str, Rule]:
    """The mechanisms measured, at length n."""
    first = np.arange(n) < 8
    w = jax.random.normal(jax.random.key(1), (2, DEPTH, 32)) / 8
    return {
        "causal": Rule(mask=masks.causal()),
        "window": Rule(mask=masks.window(WINDOW, 0)),
        "gaussian": Rule(scores.gaussian(8.0), mask=masks.causal()),
        "longformer": Rule(mask=patterns.longformer(2 * WINDOW, first)),
        "bigbird": Rule(mask=patterns.bigbird(64, 3, 2, 3)),
        **({"additive": Rule(scores.additive(*w, jnp.ones(32)))} if n <= 1024 else {}),
    }


class Program(NamedTuple):
    """Something to time: `run` waits for its result."""

    case: str
    n: int
    direction: str
    peer: str
    run: Callable[[], object]
    compile_s: float = 0.0
    temporaries: int | None = None
    times: int = 1  # what its time is multiplied by


def both_ways(f: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The forward pass, and forward and backward."""
    return {"forward": f, "forward+backward": lambda q, k, v: jax.vjp(f, q, k, v)[1](q)}


def jax_programs(n: int, cases: list[str]) -> Iterator[Program]:
    """blockwise and its tile on every case; dense and jax.nn on what jax.nn can do, in memory."""
    arrays = jax.random.normal(jax.random.key(0), (3, 1, n, HEADS, DEPTH))
    for case, rule in rules(n).items():
        if case not in cases:
            continue
        peers = {"blockwise": (attended(rule, "blockwise"), 1, arrays)}
        if case in ("causal", "window") and n <= 4096:
            peers["dense"] = attended(rule, "dense"), 1, arrays
            peers["jax.nn"] = jax_nn(case), 1, arrays
        tiles = blockwise().tiles(describe(*arrays, rule))
        live, size = tiles.full.size + tiles.partial.size, tiles.queries.size
        alone = attended(rule.replace(mask=masks.everything()), "dense")
        peers["one tile × tiles"] = alone, live, arrays[:, :, :size]
        for peer, (f, times, (q, k, v)) in peers.items():
            for direction, g in both_ways(f).items():
                start = time.perf_counter()
                compiled = jax.jit(g).lower(q, k, v).compile()
                taken = time.perf_counter() - start
                memory = compiled.memory_analysis().temp_size_in_bytes
                run = partial(lambda f, *x: jax.block_until_ready(f(*x)), compiled, q, k, v)
                yield Program(case, n, direction, peer, run, taken, memory, times)


def attended(rule: Rule, backend: str) -> Callable[..., Any]:
    """``attend`` by one backend."""
    return lambda q, k, v: attend(q, k, v, rule=rule, backend=backend)


def jax_nn(case: str) -> Callable[..., Any]:
    """JAX's own attention, causal or in a window."""
    window = (WINDOW, 0) if case == "window" else None
    return partial(jax.nn.dot_product_attention, is_causal=True, local_window_size=window)


def torch_programs(n: int, cases: list[str]) -> Iterator[Program]:
    """SDPA and compiled flex_attention, where torch is installed and n² is not too much for SDPA."""
    if n > 4096:
        return
    try:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError:
        return
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, n, DEPTH, requires_grad=True) for _ in range(3))
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    allowed = (j <= i) & (j >= i - WINDOW)
    conditions = {
        "causal": lambda b, h, i, j: j <= i,
        "window": lambda b, h, i, j: (j <= i) & (j >= i - WINDOW),
    }
    flex = torch.compile(flex_attention)
    for case in [c for c in cases if c in conditions]:
        masked: dict[str, Any] = {"is_causal": True} if case == "causal" else {"attn_mask": allowed}

        def sdpa(masked: Any = masked) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **masked)

        def forward(f: Callable[[], Any] = sdpa) -> None:
            with torch.no_grad():
                f()

        def backward(f: Callable[[], Any] = sdpa) -> None:
            torch.autograd.grad(f(), (q, k, v), q)

        blocks = create_block_mask(conditions[case], 1, 1, n, n, device="cpu")
        yield Program(case, n, "forward", "torch SDPA", forward)
        yield Program(case, n, "forward+backward", "torch SDPA", backward)

        def flexed(
            blocks: Any = blocks,
        ) -> Any:  # it has no backward on CPU, and refuses to record one
            return flex(q.detach(), k.detach(), v.detach(), block_mask=blocks)

        flexing = lambda f=flexed: forward(f)  # noqa: E731
        yield Program(case, n, "forward", "torch flex_attention", flexing)


def rows(seconds: dict[Program, np.ndarray]) -> list[dict[str, Any]]:
    """One record a program, with the ratio of its time to blockwise's."""
    mine = {p[:3]: taken for p, taken in seconds.items() if p.peer == "blockwise"}
    records = []
    for program, taken in seconds.items():
        times = program.times * taken
        ratios = times / mine[program[:3]]
        records.append(
            {
                "case": program.case,
                "n": program.n,
                "direction": program.direction,
                "peer": program.peer,
                "median_s": float(np.median(times)),
                "ratio_to_blockwise": float(np.median(ratios)),
                "interval": timing.interval(ratios),
                "temporaries_mib": program.temporaries and program.temporaries / 2**20,
                "compile_s": program.compile_s,
            }
        )
    return records


def table(records: list[dict[str, Any]], about: dict[str, str]) -> str:
    """The records as markdown."""
    lines = []
    for r in records:
        low, high = r["interval"]
        memory = "" if r["temporaries_mib"] is None else f"{r['temporaries_mib']:.0f}"
        compilation = f"{r['compile_s']:.1f}" if r["compile_s"] else ""
        ratio = f"{r['ratio_to_blockwise']:.2f} ({low:.2f}–{high:.2f})"
        named = [r["case"], str(r["n"]), r["direction"], r["peer"]]
        lines.append([*named, f"{1e3 * r['median_s']:.1f}", ratio, memory, compilation])
    columns = [
        "case",
        "n",
        "direction",
        "program",
        "median, ms",
        "time ÷ blockwise (95 %)",
        "temporaries, MiB",
        "compilation, s",
    ]
    sizes = f"float32, batch 1, {HEADS} heads of {DEPTH}; {timing.said(about)}"
    return f"{sizes}\n\n{timing.markdown(columns, lines)}"


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Time and memory of the causal case against n."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    wanted = [r for r in records if r["case"] == "causal" and r["direction"] != "forward"]
    for peer in dict.fromkeys(r["peer"] for r in wanted):
        for axes, key in zip(panels, ("median_s", "temporaries_mib"), strict=True):
            some = [r for r in wanted if r["peer"] == peer and r[key]]
            axes.loglog([r["n"] for r in some], [r[key] for r in some], marker="o", label=peer)
    for axes, label in zip(panels, ("forward + backward, s", "temporaries, MiB"), strict=True):
        axes.set(xlabel="n", ylabel=label, title="causal")
    panels[0].legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def main() -> None:
    """Measures, and writes the table, the records and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lengths", default="1024,4096", help="comma-separated")
    parser.add_argument("--cases", default="causal,window,gaussian,longformer,bigbird,additive")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=180.0, help="spent on a length, about")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/attention"))
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    for n in map(int, options.lengths.split(",")):
        cases = options.cases.split(",")
        programs = [*jax_programs(n, cases), *torch_programs(n, cases)]
        taken = timing.measure(programs, options.repeats, budget=options.seconds)
        records += rows(taken)
        write(options.out, records)


def write(out: Path, records: list[dict[str, Any]]) -> None:
    """The table, the records and the plot of what has been measured so far."""
    about = timing.machine("torch")
    timing.write(out, about, records, table(records, about))
    draw(records, out.with_suffix(".png"))


if __name__ == "__main__":
    main()
