"""Admits objects: from SQS messages and from bucket listings."""
