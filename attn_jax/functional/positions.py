"""Encodings of position: sinusoids that are added to embeddings, rotations of queries and keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from attn_jax.functional.value import Array

__all__ = ["restarting", "rotary", "sinusoidal", "sinusoidal_2d"]


def _angles(positions: Array, pairs: int, base: float) -> Array:
    """Position times a geometric series of frequencies from 1 towards 1/base: `… pairs`, float32."""
    frequencies = jnp.asarray(base, jnp.float32) ** (-jnp.arange(pairs, dtype=jnp.float32) / pairs)
    return jnp.asarray(positions, jnp.float32)[..., None] * frequencies


def restarting(segments: Array) -> Array:
    """Positions that begin anew with each segment, for documents packed into one sequence.

    Args:
      segments: `… t`, integers; a segment is a run of equal ones.

    Returns:
      `… t`, int32: how many tokens of its segment stand before each.

    >>> restarting(jnp.array([0, 0, 0, 1, 1, -1]))
    Array([0, 1, 2, 0, 1, 0], dtype=int32)
    """
    index = jnp.arange(segments.shape[-1], dtype=jnp.int32)
    before = jnp.concatenate([segments[..., :1], segments[..., :-1]], axis=-1)
    return index - jax.lax.cummax(jnp.where(segments != before, index, 0), axis=segments.ndim - 1)


def sinusoidal(
    positions: Array, width: int, base: float = 10_000.0, interleaved: bool = True
) -> Array:
    r"""Sines and cosines of position at geometrically spaced wavelengths.

    .. math:: e_{2c} = \sin(p / \beta^{2c/m}), \quad e_{2c+1} = \cos(p / \beta^{2c/m})

    Args:
      positions: p, `…`, in tokens.
      width: m, the width of the encoding, even.
      base: β; wavelengths go from 2π up to, and without, 2πβ.
      interleaved: whether each sine is followed by its cosine, as above; else all sines come first.

    Returns:
      `… m`, float32, dimensionless in [−1, 1].

    Raises:
      ValueError: `width` is odd.

    Reference: Vaswani et al. (2017), section 3.5.

    >>> sinusoidal(jnp.arange(2), 4)[0]
    Array([0., 1., 0., 1.], dtype=float32)
    """
    if width % 2:
        raise ValueError(f"sinusoidal positions need an even width, got {width}")
    angles = _angles(positions, width // 2, base)
    waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1 if interleaved else -2)
    return waves.reshape(*angles.shape[:-1], width)


def sinusoidal_2d(positions: Array, width: int, base: float = 10_000.0) -> Array:
    r"""Sines and cosines of the row in the first half of the encoding, of the column in the second.

    .. math:: e = [\mathrm{sinusoidal}(y, m/2),\; \mathrm{sinusoidal}(x, m/2)]

    Args:
      positions: (y, x), `… 2`, row and column, in cells of a grid.
      width: m, the width of the encoding, a multiple of 4.
      base: as of :func:`sinusoidal`.

    Returns:
      `… m`, float32, dimensionless in [−1, 1].

    Raises:
      ValueError: `width` is no multiple of 4, or the last axis of `positions` is not 2.

    Reference: Parmar et al. (2018), section 3.1.

    >>> grid = jnp.stack(jnp.meshgrid(jnp.arange(3), jnp.arange(5), indexing="ij"), axis=-1)
    >>> sinusoidal_2d(grid, 8).shape
    (3, 5, 8)
    """
    if width % 4:
        raise ValueError(f"sinusoidal_2d needs a width that is a multiple of 4, got {width}")
    if jnp.shape(positions)[-1:] != (2,):
        raise ValueError(
            f"sinusoidal_2d takes rows and columns, … 2; got shape {jnp.shape(positions)}"
        )
    both = sinusoidal(positions, width // 2, base)  # … 2 m/2
    return both.reshape(*both.shape[:-2], width)


def rotary(
    x: Array, positions: Array, base: float = 10_000.0, *, interleaved: bool = False
) -> Array:
    r"""Queries or keys rotated by angles proportional to position; inner products then see distance.

    .. math:: (x_a, x_b) \mapsto (x_a \cos\phi - x_b \sin\phi,\; x_b \cos\phi + x_a \sin\phi),
              \quad \phi = p / \beta^{2c/d}

    Pair c, from 0, is coordinate c of the first and of the second half, (a, b) = (c, c + d/2); or two
    neighbours, (2c, 2c + 1), when interleaved.

    Args:
      x: `*b t h d`, d even.
      positions: p, `t` or `*b t`, in tokens.
      base: β; wavelengths go from 2π up to, and without, 2πβ.
      interleaved: rotate neighbouring pairs, as in the paper, instead of halves.

    Returns:
      `*b t h d`, of x's dtype; phases are computed in float32.

    Raises:
      ValueError: x is not `*b t h d`, d is odd, or the positions are not `t` or `*b t`.

    Reference: Su et al. (2021), equation 34 (interleaved).

    >>> q = jnp.ones((3, 1, 2))
    >>> rotary(q, jnp.array([0, 0, 0])) == q
    Array([[[ True,  True]],
           [[ True,  True]],
           [[ True,  True]]], dtype=bool)
    """
    if x.ndim < 3:
        raise ValueError(f"rotary needs x of *b t h d, got shape {x.shape}")
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"rotary positions need an even depth d, got {d}")
    positions = jnp.asarray(positions)
    if positions.shape not in ((x.shape[-3],), x.shape[:-2]):
        raise ValueError(
            f"rotary positions must be t = ({x.shape[-3]},) or *b t = {x.shape[:-2]}, got "
            f"{positions.shape}"
        )
    angles = _angles(positions, d // 2, base)[..., None, :]  # *b t 1 d/2
    sine, cosine = jnp.sin(angles), jnp.cos(angles)
    if interleaved:
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = x[..., : d // 2], x[..., d // 2 :]
    turned = first * cosine - second * sine, second * cosine + first * sine
    join = jnp.stack(turned, -1).reshape(x.shape) if interleaved else jnp.concatenate(turned, -1)
    return join.astype(x.dtype)
