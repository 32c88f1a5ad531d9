"""Benchmarks of Sluice. Each is one command, and keeps its raw numbers with a description of the machine."""
