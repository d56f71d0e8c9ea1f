"""Nadaraya-Watson regression as attention: fixed and learned widths, kernels, heads and depths."""
