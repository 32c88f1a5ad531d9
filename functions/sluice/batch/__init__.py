"""What is claimed together: the claim, its manifest, and the outcome per table."""
