"""Column types, writer schemas, and how a table's schema evolves."""
