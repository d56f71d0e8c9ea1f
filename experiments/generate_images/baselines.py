"""What is known of images by counting."""

import numpy as np


def histogram_bits(
    train: np.ndarray, heldout: np.ndarray, colours: int, given_last: bool = False
) -> float:
    r"""Bits per pixel of the histogram of each place, smoothed.

    .. math:: p(c) = \frac{N(c) + 1}{N + k}, \quad
              p(c \mid b) = \frac{N(b c) + u(b)\, p(c)}{N(b) + u(b)}

    There N counts images by the pixel of a place, u is how many colours followed b there, and k how
    many there are.

    Args:
      train: to count in, `n t` integers below k.
      heldout: to be known, `n t`.
      colours: k.
      given_last: whether the pixel before is known, b; none is before the first.

    References: Laplace's rule; Witten and Bell (1991), method C.

    >>> x = np.array([[0, 1], [1, 0]] * 50)
    >>> round(histogram_bits(x, x, 2), 2), round(histogram_bits(x, x, 2, given_last=True), 2)
    (1.0, 0.51)
    """
    n, t = train.shape
    places = np.arange(t)
    counts = np.zeros((t, colours))
    np.add.at(counts, (places, train), 1)
    alone = (counts + 1) / (n + colours)
    if not given_last:
        return float(-np.log2(alone[places, heldout]).mean())
    before = [np.pad(x[:, :-1], [(0, 0), (1, 0)]) for x in (train, heldout)]
    pairs = np.zeros((t, colours, colours))
    np.add.at(pairs, (places, before[0], train), 1)
    known = pairs.sum(-1, keepdims=True)
    followed = (pairs > 0).sum(-1, keepdims=True)
    mixed = pairs + np.maximum(followed, 1) * alone[:, None]
    conditional = mixed / (known + np.maximum(followed, 1))
    return float(-np.log2(conditional[places, before[1], heldout]).mean())
