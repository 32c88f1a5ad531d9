"""The audit: facts of bronze, the ledger, manifests and outcomes, and timelines, and the rounds of the function."""
