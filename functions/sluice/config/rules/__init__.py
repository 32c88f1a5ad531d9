"""What a rule of tables.yaml says about columns and rows."""
