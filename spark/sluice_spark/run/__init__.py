"""The driver's loop: take over, claim, merge, settle, release."""
