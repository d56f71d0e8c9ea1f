"""Attention mechanisms in JAX and Flax as composable, exact, fast values."""
