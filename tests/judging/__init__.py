"""Runs recorded change objects through a stack and compares what readers see with the rows the source database had."""
