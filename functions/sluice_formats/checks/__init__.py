"""Checks of decoded values, record by record."""
