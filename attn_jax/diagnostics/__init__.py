"""What the weights say: measures and pictures."""
