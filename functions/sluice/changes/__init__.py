"""Orders the changes to a row, and names the hidden columns that carry the order."""
