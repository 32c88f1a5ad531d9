"""Starts job runs and supervises lanes."""
