"""Decides what an S3 notice announces, which table takes the object, and which messages are delivered again."""
