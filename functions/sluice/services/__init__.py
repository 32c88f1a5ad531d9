"""Table services: requests, policy and planning."""
