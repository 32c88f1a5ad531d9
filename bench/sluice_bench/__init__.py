"""Benchmarks of Sluice: each is one command, keeps its raw numbers, and says what machine they come from."""
