"""Decodes change files: Avro, JSON and Parquet bytes to Arrow record batches."""
