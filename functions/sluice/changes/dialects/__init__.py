"""Dialects: forms in which captures other than Debezium's connectors write a change, one module each."""
