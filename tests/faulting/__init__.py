"""Faults on the local stack: strikes one, waits until everything is committed, and judges what is there then."""
