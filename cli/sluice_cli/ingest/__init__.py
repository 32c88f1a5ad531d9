"""`sluice put`, `wait` and `quarantine`."""
