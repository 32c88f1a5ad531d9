"""Writes Iceberg metadata beside Hudi tables."""
