"""Decoding: caches, search and scores."""
