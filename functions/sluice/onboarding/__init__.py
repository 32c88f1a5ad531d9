"""Proposals for rules: discovered topics, candidate keys, Hudi Streamer configurations."""
