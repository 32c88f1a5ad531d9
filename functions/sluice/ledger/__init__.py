"""Keys and records of the ledger, and its recovery from S3."""
