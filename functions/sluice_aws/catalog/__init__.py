"""Synchronizes tables with the Glue catalog."""
