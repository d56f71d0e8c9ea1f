"""Five traps of practice, each made visible beside what mends it."""
