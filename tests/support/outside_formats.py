"""Plays a folder of objects that other tools wrote through admission and the merge, in phases, under its rules."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.batch.manifest import ManifestObject
from sluice.changes.hidden_columns import DELETED
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId
from sluice_aws.admission.admit import open_admission
from sluice_cli.config.source import read_tables
from sluice_read.errors import NoCommit
from sluice_read.reading import Shown, open_table
from sluice_read.values import json_value
from support.workbench import NOW, Silver, Workbench

HOME = Path(__file__).parents[1] / "data" / "outside_formats"


class Played:
    """What became of a folder's objects: live rows by table, and the codes of what was set aside."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.refused: defaultdict[str, list[str]] = defaultdict(list)
        self.reasons: list[str] = []


def configuration_of(folder: Path, table_type: str | None = None) -> Configuration:
    """The folder's rules, all of one table type if one is given."""
    text = (folder / "rules.yaml").read_text(encoding="utf-8")
    configuration = read_tables("tables:\n" + "".join(f"  {line}\n" for line in text.splitlines()))
    if table_type is None:
        return configuration
    return Configuration(tuple(replace(rule, table_type=table_type) for rule in configuration.rules))


def play(bench: Workbench, folder: Path, configuration: Configuration) -> Played:
    """Put the objects phase by phase, merge each table's as one batch a phase, and read the tables."""
    judge = open_admission(
        bench.services.objects,
        ledger=None,  # type: ignore[arg-type]  # judging writes nothing
        silver_bucket=bench.silver,
        now=bench.services.clock.now_ms,
    )
    played, arrivals, tables = Played(), itertools.count(1), dict[str, TableConfig]()
    for phase in sorted((folder / "bronze").iterdir(), key=lambda path: int(path.name)):
        parts: defaultdict[str, list[ManifestObject]] = defaultdict(list)
        for path in sorted(path for path in phase.rglob("*") if path.is_file()):
            key, body = path.relative_to(phase).as_posix(), path.read_bytes()
            version = bench.s3.put_object(Bucket=bench.bronze, Key=key, Body=body)["VersionId"]
            route, verdict, schema = judge.judge(ObjectId(bench.bronze, key, version), len(body), configuration)
            if verdict.state != PENDING or verdict.config is None:
                played.refused[verdict.table or key].append(verdict.code or verdict.state)
                played.reasons.append(str(verdict.reason))
                continue
            tables[verdict.config.table] = verdict.config
            facts = (len(body), schema, route.format or "", route.topic or "", route.kafka_partition, route.offset)
            item = ManifestObject(bench.bronze, key, version, *facts, next(arrivals))
            parts[verdict.config.table].append(item)
        for name, objects in parts.items():
            _merge(bench, tables[name], objects, played)
    for name, config in tables.items():
        played.rows[name] = live_rows(bench, config)
    return played


def _merge(bench: Workbench, config: TableConfig, objects: Sequence[ManifestObject], played: Played) -> None:
    outcome = bench.merge(config, objects)
    for error in outcome.quarantined:
        played.refused[config.table].append(error.code)
        played.reasons.append(error.reason)
    for rows in outcome.quarantined_rows:
        played.refused[config.table].extend(f"{code} {count}" for code, count in sorted(rows.codes.items()))


def live_rows(bench: Workbench, config: TableConfig) -> list[dict[str, Any]]:
    """The table's rows as `sluice query --json` shows them, in the order of their text."""
    try:
        rows_read = open_table(Silver(bench.services.tables_uri), config.table, span=NOW).reader(Shown()).read_all()
    except NoCommit:
        return []
    own = [name for name in rows_read.schema.names if not name.startswith(("_hoodie_", "_sluice_")) and name != DELETED]
    rows = [{name: json_value(row[name]) for name in own} for row in rows_read.to_pylist()]
    return sorted(rows, key=str)


def differences(expected: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the rows lack an expected one. An expected row names the columns that matter."""
    left = list(rows)
    problems = []
    for wanted in expected:
        fits = next((row for row in left if {name: row.get(name, _ABSENT) for name in wanted} == wanted), None)
        if fits is None:
            problems.append(f"no row {dict(wanted)}")
        else:
            left.remove(fits)
    return problems + [f"besides {row}" for row in left]


_ABSENT = object()
