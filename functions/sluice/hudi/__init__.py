"""Hudi: write options, table properties, the timeline."""
