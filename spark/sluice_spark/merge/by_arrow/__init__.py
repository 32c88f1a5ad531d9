"""Merges by Arrow, without a DataFrame: the rows that Spark would make, decided and written without a Spark job."""
