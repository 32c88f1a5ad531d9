"""Benchmarks of the whole pipeline on a local stack."""
