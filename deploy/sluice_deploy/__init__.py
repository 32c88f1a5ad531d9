"""Builds and uploads a release: the Spark artifacts, wheels, and the template."""

DISTRIBUTION = "sluice-lakehouse"  # its name on PyPI
