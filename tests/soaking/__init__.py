"""A soak of the local stack: twelve tables, generated changes, random faults, and a verdict at the end."""
