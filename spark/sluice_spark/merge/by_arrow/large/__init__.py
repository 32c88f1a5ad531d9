"""Merges of large parts by Arrow: any number of changes, beside all stored keys, in the parts of one shuffle."""
