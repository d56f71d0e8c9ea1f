"""Attention in float64 numpy, an entry at a time, from the formula."""

import numpy as np


def attention(q, k, v, *, allowed=True, scale=None, bias=0.0, sink=None):
    """Output `*b t h e`, log-sum-exp `*b h t` and weights `*b h t s`."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    *batch, t, h, d = q.shape
    s, g = k.shape[-3:-1]
    full = (*batch, h, t, s)
    allowed, bias = np.broadcast_to(allowed, full), np.broadcast_to(bias, full)
    scale = np.broadcast_to(d**-0.5 if scale is None else scale, (h,))
    sink = np.broadcast_to(-np.inf if sink is None else sink, (h,))
    y, lse, weights = np.zeros((*batch, t, h, v.shape[-1])), np.zeros(full[:-1]), np.zeros(full)
    for *b, head, i in np.ndindex(*full[:-1]):
        row, key_head = (*b, head, i), head // (h // g)
        total = np.exp(sink[head])
        for j in range(s):
            if allowed[(*row, j)]:
                score = q[(*b, i, head)] @ k[(*b, j, key_head)] * scale[head] + bias[(*row, j)]
                weights[(*row, j)] = np.exp(score)
                total += np.exp(score)
        lse[row] = np.log(total) if total else -np.inf
        for j in range(s):
            if weights[(*row, j)]:
                weights[(*row, j)] /= total
                y[(*b, i, head)] += weights[(*row, j)] * v[(*b, j, key_head)]
    return y, lse, weights
