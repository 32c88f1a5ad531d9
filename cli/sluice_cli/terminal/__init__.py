"""Output, failures and the choice of a stack, shared by all verbs."""
