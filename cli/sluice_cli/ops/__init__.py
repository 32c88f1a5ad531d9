"""Operates a stack: lanes, bucket notifications, cost, health checks, releases and standstills."""
