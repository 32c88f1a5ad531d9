"""history, trace, row, top and the status page agree with manifests, sources and table, for any keys and values."""

import csv
import io
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from judging.running_stack import RunningStack

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice_aws.stack import HOME_VARIABLE
from sluice_cli.main import run

CODES = ["plain", "", "NULL", "qu\"o'te", "東京/=+& ü", "<b>\u202e\\n\t", "-5", "a,b:c"]
LABELS = [None, "", "NULL", "a/b=c", "Zürich '\"<&>", "%2F+"]
FIELDS = [
    {"name": "code", "type": ["null", "string"], "default": None},
    {"name": "region", "type": "string"},
    {"name": "label", "type": ["null", "string"], "default": None},
    {"name": "qty", "type": ["null", "int"], "default": None},
    {"name": "__op", "type": "string"},
    {"name": "__lsn", "type": "long"},
    {"name": "__deleted", "type": "string"},
]
SCHEMA = fastavro.parse_schema({"type": "record", "name": "Value", "fields": FIELDS})
REGION = "r 'é\""
ODD = 'o\'d "q" $(x) `y` é+&=%2B <b>/'  # a folder in an object's key


def change(lsn: int, op: str, code: str | None, *, label: str | None = None, qty: int | None = None) -> dict[str, Any]:
    deleted = "true" if op == "d" else "false"
    values = {"code": code, "region": REGION, "label": label, "qty": qty}
    return {**values, "__op": op, "__lsn": lsn, "__deleted": deleted}


def label_of(number: int) -> str | None:
    return LABELS[number % len(LABELS)]


class Source:
    """A topic, its table, and how many records every object of it has."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.name = f"trace{secrets.token_hex(3)}"
        self.table = f"{self.name}.item"
        self.records: dict[str, int] = {}

    def put(self, offset: int, *records: Mapping[str, Any], folder: str = "") -> str:
        key = f"topics/{self.name}.item/{folder}{self.name}.item+0+{offset:010d}.avro"
        into = io.BytesIO()
        fastavro.writer(into, SCHEMA, records)
        self.stack.put(key, into.getvalue())
        self.records[key] = len(records)
        return key

    def documents(self, kind: str) -> Iterator[str]:
        """The manifests or outcomes that the run left in S3, as text."""
        s3, silver = self.stack.target.client("s3"), self.stack.target.silver
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=silver, Prefix=f"_sluice/{kind}/"):
            for item in page.get("Contents", ()):
                if item["Key"].endswith(".json") and "/errors/" not in item["Key"]:
                    yield s3.get_object(Bucket=silver, Key=item["Key"])["Body"].read().decode()

    def printed(self, *arguments: str) -> str:
        """What a verb prints, in this process: a new one for each would take longer than what they do."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
            patch.setenv(HOME_VARIABLE, str(self.stack.home))
            assert run(arguments) == 0, arguments
        return said.getvalue()

    def describe(self, *arguments: str) -> Any:
        return json.loads(self.printed(*arguments))

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.printed(*arguments, "--json").splitlines()]


@pytest.fixture(scope="module")
def source(stack: RunningStack) -> Source:
    """All codes, an update of each with another label, a late change, a deletion, and an object that repeats a change.

    One record has no key.
    """
    made = Source(stack)
    rule = {"topic": f"{made.name}.item", "table": made.table, "record_key": ["code", "region"]}
    stack.configure([{**rule, "partition_by": ["label"]}])
    loaded = [change(10 + at, "r", code, label=label_of(at), qty=at) for at, code in enumerate(CODES)]
    made.put(0, *loaded, change(50, "r", None), folder=ODD)
    stack.wait(120, strict=False)
    made.put(100, *(change(200 + at, "u", code, label=label_of(at + 1)) for at, code in enumerate(CODES)))
    stack.wait(60, strict=False)
    made.put(200, change(100, "u", CODES[0], label="late", qty=7), change(300, "d", CODES[1]))
    made.put(100, change(200, "u", CODES[0], label=LABELS[1], qty=None))
    stack.wait(60, strict=False)
    return made


def of_table(source: Source) -> tuple[list[Manifest], list[Outcome]]:
    manifests = [Manifest.from_json(text) for text in source.documents("manifests")]
    outcomes = [Outcome.from_json(text) for text in source.documents("outcomes")]
    own = [manifest for manifest in manifests if source.table in manifest.tables]
    return own, [outcome for outcome in outcomes if outcome.table == source.table]


@pytest.mark.whole
def test_the_sums_over_history_equal_those_of_the_manifests_and_sources(source: Source) -> None:
    manifests, outcomes = of_table(source)
    history = source.describe("history", "--table", source.table, "--json")
    sums = history["totals"]
    objects = [item for manifest in manifests for item in manifest.tables[source.table].objects]
    counts = sums["counts"]
    assert (sums["objects"], sums["bytes"]) == (len(objects), sum(item.size for item in objects))
    assert (sums["parts"], counts["objects"], sums["states"]) == (len(outcomes), 4, {"committed": 4})
    assert counts["read"] == sum(outcome.counts["read"] for outcome in outcomes) and counts["quarantined_rows"] == 1
    assert counts["read"] + counts["quarantined_rows"] == 2 * len(CODES) + 4 == 9 + 8 + 3
    assert {entry["key"] for entry in history["objects"]} == set(source.records) and not history["more"]
    for entry in history["objects"]:
        (claim,) = entry["claims"]
        times = [entry["noticed_at"], entry["admitted_at"], claim["claimed_at"], claim["readable_at"]]
        assert times == sorted(times) and claim["instant"] in {outcome.instant for outcome in outcomes}


@pytest.mark.whole
def test_the_sums_over_the_whole_history_equal_the_sums_in_all_manifests(source: Source) -> None:
    manifests = {manifest.batch: manifest for manifest in map(Manifest.from_json, source.documents("manifests"))}
    outcomes = []
    for outcome in map(Outcome.from_json, source.documents("outcomes")):
        part = manifests[outcome.batch].tables.get(outcome.table)
        aside = {error.object for error in (*outcome.quarantined, *outcome.parked)}
        if part is not None and {item.id.hash for item in part.objects} - aside:  # a part without one merged nothing
            outcomes.append(outcome)
    history = source.describe("history", "--limit", "100000", "--json")
    assert {(item["bucket"], item["key"], item["version"]) for item in history["objects"] if item["claims"]} == {
        (item.bucket, item.key, item.version) for manifest in manifests.values() for item in manifest.objects
    }
    assert (history["totals"]["parts"], history["more"], history["unread_manifests"]) == (len(outcomes), False, 0)
    for count in ("objects", "read", "winning", "losing", "repeated", "quarantined_rows"):
        summed = sum(outcome.counts.get(count, 0) for outcome in outcomes)
        assert history["totals"]["counts"].get(count, 0) == summed, count


def test_a_trace_accounts_for_the_time_between_the_put_and_the_commit(source: Source, tmp_path: Any) -> None:
    for key in source.records:
        trace = source.describe("trace", key, "--json", "--svg", str(tmp_path / "w.svg"))
        spans = [span for span in trace["spans"] if span["began_at"] < trace["readable_at"]]
        # Bookkeeping of some milliseconds may lie between two stages.
        stages = [span["name"] for span in spans if span["name"] != "between"]
        assert stages[-2:] == (["read", "commit"] if trace["instant"] else ["schemas", "read"])
        explained_ms = sum(span["ms"] for span in spans)
        assert explained_ms == pytest.approx(trace["to_readable_ms"], rel=0.1, abs=300), "a stretch is unexplained"
        assert (tmp_path / "w.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize("at", range(len(CODES)))
def test_a_rows_story_is_what_the_table_held_after_each_commit(source: Source, at: int) -> None:
    described = source.describe("row", source.table, "--json", "--", CODES[at], REGION)
    verdicts = [change["verdict"] for chapter in described["chapters"] for change in chapter["changes"]]
    later = ["lost", "repeated"] if at == 0 else ["won"] if at == 1 else []
    # The last two objects may be one batch or two, in either order.
    assert [*verdicts[:2], *sorted(verdicts[2:])] == ["won", "won", *later] and described["complete"]
    assert (described["objects_read"], described["records_read"]) == (4, 20)
    for chapter in described["chapters"]:
        assert chapter["instant"] is None or chapter["table"]["agrees"] is True, chapter
    labels = [chapter["table"]["row"]["label"] for chapter in described["chapters"][:2]]
    assert labels == [label_of(at), label_of(at + 1)]
    assert described["chapters"][-1]["row"]["deleted"] is (at == 1)


NOW = {(code, label_of(at + 1)) for at, code in enumerate(CODES) if at != 1}
FIRST = {(code, label_of(at)) for at, code in enumerate(CODES)}
COLUMNS = ("--column", "code", "--column", "region", "--column", "label")


def values(rows: Iterable[Mapping[str, Any]]) -> set[tuple[Any, Any]]:
    """Of rows that all have the region."""
    shown = [dict(row) for row in rows]
    assert {row["region"] for row in shown} == {REGION}
    return {(row["code"], row["label"]) for row in shown}


def test_nulls_empty_text_unicode_and_quotes_in_keys_are_read_in_every_form(source: Source, tmp_path: Any) -> None:
    sql = f'select code, region, label from {source.name}."item"'
    for verb in (("query", sql), ("query", source.table, *COLUMNS)):
        assert values(source.lines(*verb)) == NOW
        source.printed(*verb, "--parquet", str(tmp_path / "rows.parquet"))
        assert values(pq.read_table(tmp_path / "rows.parquet").to_pylist()) == NOW
        as_csv = source.printed(*verb, "--csv")
        rows = {(row["code"], row["label"]) for row in csv.DictReader(io.StringIO(as_csv, newline=""))}
        assert rows == {(code, label or "") for code, label in NOW}
        empty = sum(line.endswith(',""') for line in as_csv.splitlines())
        assert empty == sum(label == "" for _, label in NOW), "empty text is not NULL"
        shown = {tuple(line.split("\t")[::2]) for line in source.printed(*verb).splitlines()[1:]}
        escapes = str.maketrans({"\t": "\\t", "\u202e": "\\u202e"})
        assert shown == {(code.translate(escapes), "NULL" if label is None else label) for code, label in NOW}
    for code, label in NOW:
        escaped = code.replace("'", "''")
        asked = "is null" if label is None else "= '" + label.replace("'", "''") + "'"
        assert source.lines("query", f"{sql} where code = '{escaped}' and label {asked}") == [
            {"code": code, "region": REGION, "label": label}
        ]


def test_such_rows_are_read_as_of_a_moment_and_compared_between_two(source: Source) -> None:
    objects = source.describe("history", "--table", source.table, "--json")["objects"]
    first = min(filter(None, (entry["claims"][0]["instant"] for entry in objects)))
    assert values(source.lines("query", source.table, "--as-of", first)) == FIRST
    assert values(source.lines("query", "--as-of", first, f'from {source.name}."item"')) == FIRST
    changed = source.lines("query", source.table, "--since", first)
    assert values(row for row in changed if not row["__deleted"]) == NOW
    assert [row["code"] for row in changed if row["__deleted"]] == [CODES[1]]
    differing = source.lines("diff", source.table, "--from", first)
    by_key = {(item["key"]["code"], item["key"]["region"]): item for item in differing}
    kinds = {(code, REGION): "removed" if at == 1 else "changed" for at, code in enumerate(CODES)}
    assert {key: item["difference"] for key, item in by_key.items()} == kinds
    assert {(code, item["before"]["label"]) for (code, _), item in by_key.items()} == FIRST
    assert {(code, item["after"]["label"]) for (code, _), item in by_key.items() if item["after"]} == NOW
    as_csv = source.printed("diff", source.table, "--from", first, "--csv")
    keys = [json.loads(row["key"]) for row in csv.DictReader(io.StringIO(as_csv, newline=""))]
    assert {key["code"] for key in keys} == set(CODES)
    assert all(line.count("\t") == 4 for line in source.printed("diff", source.table, "--from", first).splitlines())


def test_the_catalog_follows_every_commit_with_such_partitions(source: Source) -> None:
    newest = source.describe("table", "show", source.table, "--json")["newest_commit"]
    source.printed("ops", "catalog", "sync", source.table)
    assert set(source.describe("table", "show", source.table, "--json")["catalog"].values()) == {newest}
    planned = source.describe("ops", "catalog", "sync", source.table, "--dry-run", "--json")
    assert planned["tables"][0]["changed"] is False


def test_an_object_whose_key_holds_quotes_and_signs_is_found_by_every_verb(source: Source) -> None:
    key = next(key for key in source.records if ODD in key)
    (entry,) = source.describe("quarantine", "list", "--table", source.table, "--json")["entries"]
    assert (entry["key"], entry["rows_by_code"]) == (key, {"null_record_key": 1})
    shown = source.describe("quarantine", "show", key, "--json")
    content = json.loads(shown["rows_shown"][0]["content"])
    assert (shown["key"], content["code"], content["region"]) == (key, None, REGION)
    words = [line.split(None, 1) for line in source.printed("quarantine", "show", entry["id"]).splitlines()]
    assert ["key", key] in words
    for name in (key, f"s3://{source.stack.target.bronze}/{key}", key.removeprefix("topics/")):
        assert [item["key"] for item in source.describe("history", "--key", name, "--json")["objects"]] == [key]
    assert source.printed("trace", key).splitlines()[0] == key
    assert key in source.printed("history", "--table", source.table)
    assert key in source.printed("row", source.table, "--check", "0", "--", CODES[0], REGION)
    assert source.describe("row", source.table, "--json", "--", CODES[0], REGION)["set_aside"] == []
    # Whether `wait` lists it or counts it as from before depends on how long ago the fixture wrote it.
    assert " quarantined)" in source.printed("wait", "--timeout", "60").splitlines()[-1]
