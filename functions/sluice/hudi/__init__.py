"""Hudi's vocabulary: write options, table properties, the timeline."""
