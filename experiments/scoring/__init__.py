"""Why scores are divided by √d, and what else a score can be: numbers and pictures."""
