"""Glue tables, views and partitions: what a sync has to change."""
