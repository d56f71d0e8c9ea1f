"""Trains a Transformer on sentence pairs, evaluates it, and translates with it."""
