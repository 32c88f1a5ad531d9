"""Verbs about tables: query, inspect, schema, catalog, services, rebuild."""
