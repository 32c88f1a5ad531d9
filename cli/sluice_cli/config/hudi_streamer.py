"""`sluice config import`: translates a Hudi Streamer's properties into a rule of tables.yaml."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sluice.config.table import COW, MOR
from sluice.errors import FAILED, UsageError
from sluice.hudi.java_properties import parse_properties
from sluice.names import TOPIC
from sluice.onboarding.hudi_streamer import Translation, config_files, of_table, translate
from sluice_cli.config.rule_text import add_rules, columns_value, comment, rule_lines, scalar
from sluice_cli.errors import plain_reason
from sluice_cli.terminal.options import Json, argument, option
from sluice_cli.terminal.output import print_json, say

LARGEST = 1_000_000  # bytes
INCLUDES = 5  # files deep
_INCLUDE = "include"


def import_properties(
    properties: Annotated[Path, argument("FILE", "A .properties file of Hudi Streamer (DeltaStreamer).")],
    topic: Annotated[str | None, option("--topic TOPIC", "The topic, if the properties don't name it.")] = None,
    table: Annotated[
        str | None, option("--table DATABASE.TABLE", "The table, if not the one of the properties.")
    ] = None,
    table_type: Annotated[
        str | None,
        option("--table-type cow|mor", "As on the Streamer's command line; COPY_ON_WRITE and MERGE_ON_READ work too."),
    ] = None,
    write: Annotated[bool, option("--write", "Add the rule to the file, unless a choice is open.")] = False,
    file: Annotated[Path, option("--file FILE", "The tables.yaml to add to, or to create.")] = Path("tables.yaml"),
    as_json: Json = False,
) -> None:
    """Translate a Hudi Streamer configuration into a rule of tables.yaml. Needs no stack.

    The rule has the topic, table, record key, partition columns, table type, `time_travel` and file sizes. Every
    other option is named with the reason why it is left out; its value is never shown, since it may be a secret.
    For a MultiTable Streamer, name the common properties: the files of its tables are read from the same folder.
    Load the new table from bronze, at another path than the Streamer's: Sluice can't continue another tool's table.
    `sluice table adopt` then adds the rows that bronze no longer has. The exit code is 1 if a choice is open; options
    that are left out don't count.

    Examples:

      sluice config import artworks.properties --table-type MERGE_ON_READ
      sluice config import sale.properties --table ecomm.sale --write
    """
    if topic is not None and not TOPIC.fullmatch(topic):
        raise UsageError(f"{topic!r} is not a topic name", next_step="Use letters, digits, . _ and -")
    entries = _entries(properties, 0)
    several = config_files(entries)
    if several and (topic is not None or table is not None):
        raise UsageError(
            f"{properties.name} lists {len(several)} tables, and --topic and --table are of one",
            next_step="Name the properties file of one table, or leave --topic and --table out",
        )
    chosen = _type(table_type)
    if several:
        of = f"{properties.name} names it: copy it into the folder of that file"
        made = [
            (beside, translate(of_table(entries, _entries(beside, 0, of)), table=name, table_type=chosen))
            for name, beside in ((name, properties.parent / Path(other).name) for name, other in several.items())
        ]
    else:
        made = [(properties, translate(entries, topic=topic, table=table, table_type=chosen))]
    is_open = any(one.open for _, one in made)
    added = None
    if write and not is_open:
        lines = [line for origin, one in made for line in _lines(one, origin)]
        added = add_rules(file, len(made), lambda indent: "".join(f"{' ' * indent}{line}\n" for line in lines))
    written = {"written": added is not None, "file": str(file)}
    if as_json:
        described = [asdict(one) for _, one in made]
        print_json({"tables": described, **written} if several else {**described[0], **written})
    else:
        print(added or "\n".join(["tables:", *(f"  {line}" for origin, one in made for line in _lines(one, origin))]))
    for origin, translation in made:
        of_file = f"{origin.name}: " if several else ""
        if not as_json:
            for item in translation.left_out:
                say(f"left out: {comment(f'{of_file}{item.option}: {item.why}')[2:]}")
        for line in translation.open:
            say(f"open: {comment(f'{of_file}{line}')[2:]}")
    if is_open:
        if write and not as_json:
            say(f"Nothing is added to {file} while a choice is open: copy what is printed into it, and settle it there")
        raise typer.Exit(FAILED)


def _entries(file: Path, depth: int, advice: str = "Name a .properties file") -> dict[str, str]:
    """Return the file's entries, over those of an included file beside it. `advice` is for one that can't be read."""
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(LARGEST + 1)  # a device tells no size, and may have no end
        if len(text.encode()) > LARGEST:
            raise UsageError(f"{file} is larger than {LARGEST:,} bytes", next_step="Name a .properties file")
        entries = parse_properties(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} can't be read: {plain_reason(error)}", next_step=advice) from error
    beside = file.parent / Path(entries.get(_INCLUDE, "")).name
    if _INCLUDE in entries and depth < INCLUDES and beside.is_file():
        return {**_entries(beside, depth + 1), **{name: value for name, value in entries.items() if name != _INCLUDE}}
    return entries


def _type(written: str | None) -> str | None:
    if written is None:
        return None
    types = {"cow": COW, "copy_on_write": COW, "mor": MOR, "merge_on_read": MOR}
    if written.lower() not in types:
        raise UsageError(f"{written!r} is not a table type", next_step="Use cow or mor")
    return types[written.lower()]


def _lines(translation: Translation, origin: Path) -> list[str]:
    rule = translation.rule
    lines = [
        comment(f"from {origin.name}"),
        *(comment(f"note: {note}") for note in translation.notes),
        *(comment(f"OPEN: {line}") for line in translation.open),
    ]
    ordering, options = translation.ordering, rule.get("hudi")
    body = {
        "topic": _text(rule.get("topic")),
        "table": _text(rule.get("table")),
        "record_key": columns_value(_strings(rule.get("record_key"))),
        "partition_by": columns_value(_strings(rule["partition_by"])) if "partition_by" in rule else None,
        "table_type": _text(rule["table_type"]),
        "time_travel": _text(rule["time_travel"]) if "time_travel" in rule else None,
        "# position": None if ordering is None else f"{ordering}   # only where a query captured the rows",
    }
    settings = options.items() if isinstance(options, dict) else ()
    hudi = ["hudi:", *(f"  {scalar(name)}: {scalar(value)}" for name, value in settings)] if settings else ()
    return lines + rule_lines(body, is_open=bool(translation.open), below=hudi)


def _text(value: object) -> str:
    return scalar(value) if isinstance(value, str) else "?"


def _strings(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else ()
