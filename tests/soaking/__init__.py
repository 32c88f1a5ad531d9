"""A soak of the local stack: ten tables, generated changes, random faults, and a verdict at the end."""
