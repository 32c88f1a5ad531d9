"""Lanes: the state machine, its supervision, and the StartJobRun request and IAM policy of a run."""
