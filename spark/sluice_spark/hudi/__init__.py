"""Reads and writes Hudi tables from Spark."""
