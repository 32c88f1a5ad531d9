"""Merges one table's part of a batch."""
