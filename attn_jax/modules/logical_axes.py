"""What the axes of parameters are for, said once, so that a training run can share them out."""

from collections.abc import Mapping

LOGICAL_AXES: Mapping[str, tuple[str, ...]] = {
    r"table": ("vocab", "embed"),
    r"\w*attention\.(query|key|value)\.kernel": ("embed", "heads"),
    r"\w*attention\.(query|key|value)\.bias": ("heads",),
    r"\w*attention\.out\.kernel": ("heads", "embed"),
    r"feed_forward\.inner\.kernel": ("embed", "mlp"),
    r"feed_forward\.inner\.bias": ("mlp",),
    r"feed_forward\.outer\.kernel": ("mlp", "embed"),
}
"""The end of a parameter's dotted path, a regular expression, to the names of its axes.

`embed` is the width of the residual stream, `heads` all heads side by side, `mlp` the hidden units
of a feed-forward network, `vocab` the entries of an embedding. Norms and the biases of outputs are
not here: they are small, and whole everywhere. `attn_jax.train.Layout` takes this table.
"""
