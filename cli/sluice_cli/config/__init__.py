"""`sluice config`: check, push, discover, import."""
