"""The lane's state machine, its supervision, and the job run that a lane starts."""
