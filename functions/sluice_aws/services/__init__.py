"""Plans table services."""
