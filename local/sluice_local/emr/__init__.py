"""A stand-in for EMR Serverless: its HTTP API, and real Spark underneath."""
