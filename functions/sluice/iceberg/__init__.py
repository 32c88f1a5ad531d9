"""Metadata of Iceberg tables (format version 2) over the files of copy-on-write Hudi tables."""
