"""Ways of evaluating a rule, one file each."""
