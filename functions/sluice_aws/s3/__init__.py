"""What Sluice reads and writes in S3."""
