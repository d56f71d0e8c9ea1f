"""The few lengths that sequences are padded to."""

import numpy as np

_WIDTHS = 512


def boundaries(lengths: np.ndarray, count: int) -> np.ndarray:
    r"""The at most `count` lengths that sequences are best padded to.

    Chooses :math:`w_1 < \dots < w_n = \max \ell` to minimise the padding
    :math:`\sum_i \min \{w_k - \ell_i : w_k \ge \ell_i\}`, by dynamic programming:
    exactly where lengths are up to 512, and among 512 evenly spaced widths where they are longer.

    >>> boundaries(np.array([3, 3, 3, 4, 9, 10]), 2)
    array([ 4, 10])
    """
    step = -(-int(lengths.max()) // _WIDTHS)
    rounded = np.minimum(-(-lengths // step) * step, lengths.max())
    widths, counts = np.unique(rounded, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    cost = np.full(len(widths) + 1, np.inf)  # cost[j]: cells for the j shortest widths
    cost[0] = 0
    choices = []
    for _ in range(min(count, len(widths))):
        # totals[i, j]: one more boundary, at width j, above i widths already covered.
        totals = cost[:-1, None] + (before[None, 1:] - before[:-1, None]) * widths
        totals[np.tril_indices(len(widths), -1)] = np.inf
        choices.append(totals.argmin(axis=0))
        cost = np.concatenate([[0], totals.min(axis=0)])
    chosen, end = [], len(widths)
    for choice in reversed(choices):
        if end:
            chosen.append(widths[end - 1])
            end = choice[end - 1]
    return np.array(chosen[::-1])
