"""Plans what a run claims, writes it down in a manifest, and records the outcome of each table."""
