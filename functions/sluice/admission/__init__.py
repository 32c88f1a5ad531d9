"""What an S3 notice announces, and which table takes the object."""
