"""A stand-in for EMR Serverless: its HTTP API on top of real Spark."""
