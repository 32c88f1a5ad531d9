"""A read-only HTTP API over silver tables, for `sluice serve`. It needs the extra `serve`."""
