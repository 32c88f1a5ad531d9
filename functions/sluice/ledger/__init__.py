"""The ledger: its port, the keys and records of its items, announcements, and its recovery from S3."""
