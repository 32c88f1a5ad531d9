"""The configuration: tables, lanes and services as `tables.yaml` defines them."""
