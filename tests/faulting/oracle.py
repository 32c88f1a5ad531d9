"""What tables must show by the changes that were put and by their rules, and how rows are compared with that."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from sluice.changes.hidden_columns import DELETED, SOURCE_TS_MS
from sluice.config.table import history_name
from sluice_aws.stack import Target
from sluice_bench.data.debezium_objects import SOURCES, writer_schema
from sluice_bench.data.tickit_rows import MONTHS

MASKED = "***"
SECRET = "a key of tests, of more than 32 bytes"
# Rules of tables, as in tables.yaml, and what is put against them: by the source of the rows.
LEAVES_OUT: Mapping[str, Any] = {
    "exclude": ["holiday"],
    "rename": {"day": "weekday"},
    "mask": ["qtr"],
    "hash": ["month"],
}
EXPECTS: Mapping[str, Mapping[str, Any]] = {
    "date": {"columns": {"week": {"min": 1, "max": 53}}},
    "event": {"columns": {"venueid": {"min": 1}}},
}
UNEXPECTED: Mapping[str, Mapping[str, int]] = {"date": {"week": 99}, "event": {"venueid": -1}}
HASHED: Mapping[str, Sequence[str]] = {"month": MONTHS}  # the values of columns that are hashed


@dataclass(frozen=True)
class Change:
    """A change that was put: the row's key, the source's time (of no other change of the table), and the text that it
    sets; None for a deletion.
    """

    key: int
    at: int
    text: str | None


@dataclass(frozen=True)
class Form:
    """How a table shows its rows. `text` is the column that changes, `concealed` has the values that columns may hold.

    `history` is the name of its history table.
    """

    key: str
    text: str
    columns: frozenset[str]
    concealed: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    append_only: bool = False
    history: str | None = None


def form_of(source: str, text: str, rule: Mapping[str, Any]) -> Form:
    """The form of a table by the source of its rows and by its rule in tables.yaml."""
    columns = rule.get("columns", {})
    names = {name: columns.get("rename", {}).get(name, name) for name in columns_of(source)}
    concealed = {names[name]: frozenset({MASKED}) for name in columns.get("mask", ())}
    concealed |= {names[name]: frozenset(map(hashed, HASHED[name])) for name in columns.get("hash", ())}
    database, _, table = rule["table"].partition(".")
    return Form(
        names[SOURCES[source].key],
        names[text],
        frozenset(names.values()) - {names[name] for name in columns.get("exclude", ())},
        concealed,
        append_only=bool(rule.get("append_only")),
        history=f"{database}.{history_name(rule['history'], table)}" if rule.get("history") else None,
    )


def columns_of(source: str) -> tuple[str, ...]:
    """The columns of a source's rows, without the connector's own."""
    return tuple(field["name"] for field in writer_schema(source)["fields"] if not field["name"].startswith("__"))


def hashed(text: str) -> str:
    """The hash of a value, as a table stores it."""
    return hmac.new(SECRET.encode(), text.encode(), "sha256").hexdigest()


def secret_name(target: Target) -> str:
    """The name of the secret that holds the key of hashed columns; it is made where it is missing."""
    name = f"{target.stack}/tests"
    try:
        target.client("secretsmanager").create_secret(Name=name, SecretString=SECRET)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceExistsException":
            raise
    return name


def rows_after(changes: Iterable[Change], *, keeps_deleted: bool = False) -> dict[int, str]:
    """The rows after these changes, by key; `keeps_deleted` where deletions are ignored."""
    rows: dict[int, str | None] = {}
    for change in sorted(changes, key=lambda change: change.at):
        if change.text is not None or not keeps_deleted:
            rows[change.key] = change.text
    return {key: text for key, text in rows.items() if text is not None}


def compared_rows(expected: Mapping[int, str], rows: Iterable[Mapping[str, Any]], form: Form) -> Counter[str]:
    """The numbers of rows that are expected, lost, doubled and wrong, of a table with a key."""
    seen: Counter[int] = Counter()
    wrong = 0
    for row in rows:
        key = int(row[form.key])
        seen[key] += 1
        wrong += expected.get(key) != row[form.text]
    lost = len(expected.keys() - seen.keys())
    return Counter(rows=len(expected), lost=lost, doubled=sum(count - 1 for count in seen.values()), wrong=wrong)


def compared_changes(expected: Counter[Change], stored: Counter[Change]) -> Counter[str]:
    """The same for a table that holds changes: one that is append-only, or a history table.

    A change with another text, or that was never put, is wrong. What is expected in its place is lost.
    """
    return Counter(
        rows=expected.total(),
        lost=(expected - stored).total(),
        doubled=sum(count - expected[change] for change, count in stored.items() if 0 < expected[change] < count),
        wrong=sum(count for change, count in stored.items() if not expected[change]),
    )


def changes_in(rows: Iterable[Mapping[str, Any]], form: Form) -> Counter[Change]:
    """The changes that the rows of such a table say, read with all hidden columns."""
    return Counter(
        Change(int(row[form.key]), row[SOURCE_TS_MS], None if row[DELETED] else row[form.text]) for row in rows
    )


def unlike(form: Form, columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Columns that a table has and shouldn't have or lacks, and those with values that should not be stored."""
    shown = frozenset(columns)
    odd = [f"{name} is there" for name in sorted(shown - form.columns)]
    odd += [f"{name} is missing" for name in sorted(form.columns - shown)]
    held: dict[str, set[Any]] = {name: set() for name in form.concealed if name in shown}
    for row in rows:
        for name, values in held.items():
            values.add(row[name])
    return odd + [f"{name} is not concealed" for name, values in held.items() if values - form.concealed[name] - {None}]
