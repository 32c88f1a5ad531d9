"""The order of changes to a row, and the hidden columns that carry it."""
