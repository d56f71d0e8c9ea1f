"""The training engine: pure functions of (state, batch), and a loop that loses nothing.

optimizer = adamw(inverse_square_root(2e-3, 200))
step = make_step(loss, optimizer)
state = State.create(params, optimizer, jax.random.key(0))
state, report = fit(state, step, batches, plan=Plan(steps=1600), run=Run(workdir))
"""

from attn_jax.train.best import best_states
from attn_jax.train.checkpoints import Checkpoints, NotSaved, Unreadable
from attn_jax.train.compilation import enable_compilation_cache
from attn_jax.train.identity import Difference, Mismatch, compare, differences
from attn_jax.train.lock import WorkdirBusy, hold
from attn_jax.train.loop import NonFinite, fit
from attn_jax.train.losses import Sums, cross_entropy
from attn_jax.train.mesh import data_mesh, device_mesh
from attn_jax.train.optimizers import Optimizer, adafactor, adamw, decays, lion
from attn_jax.train.precision import Precision
from attn_jax.train.report import Report
from attn_jax.train.retention import Retention
from attn_jax.train.schedules import constant, cosine, inverse_square_root, linear
from attn_jax.train.sharding import Batch, Layout
from attn_jax.train.signals import Interrupted
from attn_jax.train.standing import Plan, Run
from attn_jax.train.state import State, average
from attn_jax.train.step import Loss, Step, make_evaluate, make_step, means
from attn_jax.train.stream import Batches, Stream

__all__ = [
    "Batch",
    "Batches",
    "Checkpoints",
    "Difference",
    "Interrupted",
    "Layout",
    "Loss",
    "Mismatch",
    "NonFinite",
    "NotSaved",
    "Optimizer",
    "Plan",
    "Precision",
    "Report",
    "Retention",
    "Run",
    "State",
    "Step",
    "Stream",
    "Sums",
    "Unreadable",
    "WorkdirBusy",
    "adafactor",
    "adamw",
    "average",
    "best_states",
    "compare",
    "constant",
    "cosine",
    "cross_entropy",
    "data_mesh",
    "decays",
    "device_mesh",
    "differences",
    "enable_compilation_cache",
    "fit",
    "hold",
    "inverse_square_root",
    "linear",
    "lion",
    "make_evaluate",
    "make_step",
    "means",
]
