"""Trains a model on sentence pairs, evaluates it, translates and scores with it, and draws it."""
