"""What a changed setting can lose or stop. `sluice config push` asks before it makes such a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sluice.config.table import FREEZE, HARD, IGNORE
from sluice_cli.terminal.step import Step

if TYPE_CHECKING:
    from sluice_aws.stack import Target

_Risk = Callable[[Any, Any], str | None]
UNFIT = "objects whose columns no longer fit the table's are quarantined"
UNFIT_TYPES = (
    f"{UNFIT}. To change the type of a stored column, rebuild the table: {Step('pause', 'LANE')}, "
    f"{Step('rebuild table', 'TABLE')}, push, {Step('resume', 'LANE')}"
)


def drop_in_glue(target: Target, database: str, tables: Iterable[str], lane: str) -> str:
    """The step, of a sentence about a table of `lane` that gets other partitions, which drops its tables in Glue."""
    return (
        f"before {Step('resume', lane)}, drop the table in Glue (its data stays), or its sync fails: "
        f"{', '.join(f'`{drop_command(target, database, name)}`' for name in tables)}"
    )


def drop_command(target: Target, database: str, name: str) -> str:
    """The command that drops a table in Glue. It is complete: no name is left to be filled in."""
    return f"{aws_command(target)} glue delete-table --database-name {database} --name {name}"


def aws_command(target: Target) -> str:
    """The AWS CLI. On a local stack with its endpoint and keys: without them it would reach the caller's account."""
    if target.endpoint is None or target.credentials is None:
        return "aws"
    keys = target.credentials
    return (
        f"AWS_ACCESS_KEY_ID={keys.access_key_id} AWS_SECRET_ACCESS_KEY={keys.secret_access_key} "
        f"aws --endpoint-url {target.endpoint} --region {target.region}"
    )


def _if_lower(consequence: str) -> _Risk:
    return lambda old, new: consequence if new < old else None


def _if_off(consequence: str) -> _Risk:
    return lambda old, new: consequence if old and not new else None


def _if_there(consequence: str) -> _Risk:
    return lambda old, new: consequence if new else None


def _always(consequence: str) -> _Risk:
    return lambda old, new: consequence


def _generation(old: int, new: int) -> str:
    if new < old:
        return f"changes lose against every row of generation {old}"
    return "changes of the new log win over every row, and a lower generation can't bring the rows back"


def _delete_mode(old: str, new: str) -> str | None:
    if new == HARD:
        return "table services remove deleted rows permanently"
    return "rows that are deleted from now on stay visible" if new == IGNORE else None


def _lineage(old: tuple[str, ...], new: tuple[str, ...]) -> str | None:
    gone = sorted(set(old) - set(new))
    return f"{', '.join(gone)} is null in rows written from now on" if gone else None


def _catalog(old: Any, new: Any) -> str | None:
    return "the catalog keeps the table as of its last sync" if old.sync and not new.sync else None


#: By a rule's setting; a name that ends in "." stands for each setting of its group. Values are those of the fields.
RISKS: Mapping[str, _Risk] = {
    "paused": lambda old, new: "objects wait until it is taken back" if new else None,
    "generation": _generation,
    "delete_mode": _delete_mode,
    "delete_when.": _always("other rows count as deletions"),
    "keep_deleted_values": _if_off("rows that are deleted from now on lose their values"),
    "history": _if_off(
        f"states that end before it is on again seem to last; {Step('rebuild table')} fills in what bronze has"
    ),
    "unavailable_value": _always("the old placeholder is stored as if it were a value"),
    "null_is_unchanged": _always("an update's null in these columns is stored otherwise from now on"),
    "time_travel": _if_lower("older states are removed with the next cleaning"),
    "lineage": _lineage,
    "raw": _always(UNFIT),
    "types": _always(UNFIT_TYPES),
    "schema": lambda old, new: "objects with new columns or wider types are quarantined" if new == FREEZE else None,
    "expect.": _if_there("rows with other values are quarantined or counted from now on"),
    "columns.": _always(f"rows from before keep their values until {Step('rebuild table')}; objects may no longer fit"),
    "change.": _always("records are read as others were; objects may no longer fit"),
    "csv.": _always("the same text is stored as another value from now on"),
    "format": _always("records are read as others were; objects may no longer fit"),
    "merged": _if_off("objects with another source table's changes are quarantined from now on"),
    "shape": _always("records are read as others were; objects may no longer fit"),
    "path_columns": _always("rows from before keep what they have in these columns"),
    "key_pattern": lambda old, new: "objects whose keys it doesn't match are parked" if old is not None else None,
    "limits.": _if_lower("larger objects are quarantined"),
    "rewrite_limit": _if_lower("objects that need a larger rewrite are quarantined"),
    "services.enabled": _if_off("no table service is due by itself"),
    "services.purge.horizon": _if_lower("deleted rows are removed permanently earlier"),
    **{
        f"services.{service}.enabled": _if_off(f"{service} runs on request only")
        for service in ("compaction", "clustering", "cleaning", "archival", "purge")
    },
    "catalog": _catalog,
}


#: The risks that only stored rows have, named as in RISKS: a table without a row has none of them.
OF_STORED_ROWS = frozenset(
    "generation delete_when. time_travel raw types columns. csv. services.purge.horizon catalog".split()
)


def risk_of(key: str, old: Any, new: Any, *, has_rows: bool = True) -> str | None:
    """Return what the change of a setting can lose or stop in a table that has rows, or hasn't; None if nothing."""
    name = key if key in RISKS else f"{key.partition('.')[0]}."
    if name not in RISKS or name in OF_STORED_ROWS and not has_rows:
        return None
    return RISKS[name](old, new)
