"""Explores interleavings and crashes of the real run loop, ledger, waker and supervisor over ports in memory."""
