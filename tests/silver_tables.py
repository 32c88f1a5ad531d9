"""The silver tables that Spark wrote for the tests, in an emulated bucket."""

from functools import cache
from pathlib import Path
from typing import Any

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


def put_tables(s3: Any, bucket: str = SILVER) -> None:
    """Put the tables into the bucket."""
    for key, data in table_files().items():
        s3.put_object(Bucket=bucket, Key=key, Body=data)


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
