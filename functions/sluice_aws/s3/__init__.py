"""Sluice's objects in S3: configuration, manifests, schemas, timelines."""
