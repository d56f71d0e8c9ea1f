"""Attention over long sequences: what mechanisms cost, how far they reach, how well they estimate."""
