"""Tries the engine with small tables of its own."""
