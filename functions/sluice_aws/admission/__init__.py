"""Admits objects to the ledger, by notice or by listing, and reassigns them when the configuration changes."""
