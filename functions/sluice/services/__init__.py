"""Table services: requests, what is due, and how much fits into a slice."""
