"""Builds and uploads a release: the Spark artifacts, wheels, and the template."""
