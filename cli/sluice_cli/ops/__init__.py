"""Verbs for operators: lanes, standstill, doctor, cost, package."""
