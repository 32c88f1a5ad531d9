"""Builders, sample values and surroundings that tests of several folders share."""
