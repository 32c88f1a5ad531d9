"""The ledger in DynamoDB: one module for each kind of item, over one table."""
