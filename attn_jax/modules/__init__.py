"""Flax modules: they hold parameters and call the pure functions."""
