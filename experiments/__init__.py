"""Experiments: `python -m experiments.NAME --config=configs/...`."""
