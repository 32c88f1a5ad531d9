"""Syncs tables with the Glue Data Catalog."""
