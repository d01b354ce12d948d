"""Training: one loop for every engine and every method."""
