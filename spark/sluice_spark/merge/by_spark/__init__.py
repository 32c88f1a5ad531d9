"""Merges by Spark's DataFrames: the way of every part that Arrow does not cover."""
