"""Table services as slices of a run."""
