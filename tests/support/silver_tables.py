"""The silver tables that Spark wrote for the tests, in an emulated bucket."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.changes.forgotten import key_hash, with_mark
from sluice.changes.hidden_columns import ROW

SILVER_FOLDER = Path(__file__).resolve().parents[1] / "data" / "hudi_tables" / "silver"
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


SAME = object()  # the time of a change is that of its place in the log


def kept_change(id, name, place, op="c", *, unchanged=(), minute=SAME):
    """A change of `crm.user` in its history table. Its place in the log is its minute since 1970, or that is given."""
    at = place if minute is SAME else minute
    return {
        "_hoodie_commit_time": "20261121080015045",
        "_hoodie_commit_seqno": f"20261121080015045_0_{place}",
        "_hoodie_record_key": f"id:{id},_sluice_position:{position_of(place)}",
        "_hoodie_partition_path": "",
        "_hoodie_file_name": "a",
        "id": id,
        "name": name,
        "__deleted": op == "d",
        "_sluice_position": position_of(place),
        "_sluice_op": op,
        "_sluice_offset": place,
        "_sluice_source_ts_ms": None if at is None else at * 60_000,
        "_sluice_object": f"b/{place}.avro?versionId=v",
        "_sluice_owed": json.dumps(dict.fromkeys(unchanged, ""), separators=(",", ":")) if unchanged else None,
    }


def put_history(folder, changes):
    """Put a history table of `crm.user` beside it: the files that Spark wrote of the table, with these rows."""
    history = folder / "crm" / "user_history"
    shutil.rmtree(history, ignore_errors=True)
    shutil.copytree(SILVER_FOLDER / "crm" / "user", history)
    properties = history / ".hoodie" / "hoodie.properties"
    own = "hoodie.table.recordkey.fields=id"
    properties.write_text(properties.read_text().replace(own, f"{own},_sluice_position"))
    (file,) = history.glob("*.parquet")
    schema = pq.read_schema(file)
    pq.write_table(pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in changes], schema), file)


def put_appended(folder, rows):
    """Make `crm.user` an append-only table of these rows, each with the column of its identity."""
    place = folder / "crm" / "user"
    properties = place / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("recordkey.fields=id\n", f"recordkey.fields={ROW}\n"))
    (commit,) = (place / ".hoodie").glob("*.commit")
    written = json.loads(commit.read_text())
    columns = json.loads(written["extraMetadata"]["schema"])
    if columns["fields"][0]["name"] != ROW:
        columns["fields"].insert(0, {"name": ROW, "type": "string"})
    written["extraMetadata"]["schema"] = json.dumps(columns)
    commit.write_text(json.dumps(written))
    (file,) = place.glob("*.parquet")
    schema = pq.read_schema(file)
    if ROW not in schema.names:
        schema = schema.insert(schema.names.index("id"), pa.field(ROW, pa.string()))
    pq.write_table(pa.Table.from_pylist(rows, schema), file)


FORGOTTEN_AT = "20261121090000000"


def put_forgetting(folder, table, key, until, at=FORGOTTEN_AT):
    """Leave in a table what forgetting a row leaves there: a mark, a commit, and a cleaning of all older files."""
    timeline = folder / table.replace(".", "/") / ".hoodie"
    hash = key_hash(table, key)
    with (timeline / "hoodie.properties").open("a") as file:
        file.write(f"\nsluice.forgotten={with_mark(None, hash, until)}\n".replace(":", "\\:"))
    newest = max(path for path in timeline.iterdir() if path.suffix in (".commit", ".deltacommit"))
    noted = json.dumps({"key": hash, "rows": 1, "files": 1})
    commit = {**json.loads(newest.read_text()), "partitionToWriteStats": {}}
    commit["extraMetadata"] = {"schema": commit["extraMetadata"]["schema"], "sluice.forgotten_row": noted}
    (timeline / f"{at}{newest.suffix}").write_text(json.dumps(commit))
    names = ("earliestCommitToRetain", "lastCompletedCommitTimestamp")
    schema = {"type": "record", "name": "C", "fields": [{"name": name, "type": "string"} for name in names]}
    with (timeline / f"{int(at) + 5}.clean").open("wb") as file:
        fastavro.writer(file, schema, [dict(zip(names, (str(int(at) + 1), at), strict=True))])


def position_of(place):
    """A position, as `crm.user` has them: its rows came at places 1, 2 and 3."""
    return f"0000.{place:020d}.{place:020d}"


def rows_by_id(table):
    return {row["id"]: row for row in table.to_pylist()}
