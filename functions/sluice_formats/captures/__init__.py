"""Objects of captures other than Debezium: what their columns say of each row, and columns that no rule reads."""
