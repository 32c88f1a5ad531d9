"""The silver tables that Spark wrote for the tests, in an emulated bucket."""

from functools import cache
from pathlib import Path
from typing import Any

import boto3

SILVER_FOLDER = Path(__file__).resolve().parent / "data" / "hudi_tables" / "silver"
SILVER = "sluice-silver"


@cache
def table_files() -> dict[str, bytes]:
    """Key -> bytes of every file; of data files the first bytes only, since nothing here reads rows."""
    return {
        path.relative_to(SILVER_FOLDER).as_posix(): path.read_bytes() if ".hoodie/" in path.as_posix() else b"x"
        for path in sorted(SILVER_FOLDER.rglob("*"))
        if path.is_file()
    }


def put_tables(s3: Any = None, bucket: str = SILVER) -> Any:
    """Put the tables into the bucket, which is made if no client is given; the client."""
    if s3 is None:
        s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        s3.create_bucket(Bucket=bucket)
    for key, data in table_files().items():
        s3.put_object(Bucket=bucket, Key=key, Body=data)
    return s3


class SilverFolder:
    """A place of silver tables on disk."""

    def __init__(self, path):
        self.silver_url = path.as_uri()

    def storage_options(self):
        return {}

    def client(self, service):
        raise AssertionError(f"{service} isn't needed for a folder")


def rows_by_id(table):
    return {row["id"]: row for row in table.to_pylist()}
