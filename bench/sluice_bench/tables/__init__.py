"""Benchmarks of one table in this process: reading, merging, indexes, services."""
