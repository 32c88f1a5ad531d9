"""Full dumps of a source table that replace its table: what one dump is, and how much it may delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.config.setting import Value, setting
from sluice.config.values import choice, whole

OBJECT, FOLDER, GENERATION = "object", "folder", "generation"
MARKER = "_SUCCESS"  # as Spark and Hadoop name it


def _marker(written: Any) -> str:
    if written is False or written == "off":  # off is false to YAML
        return ""
    if not isinstance(written, str) or not 1 <= len(written) <= 100 or "/" in written:
        raise ValueError("is a file's name of 1 to 100 characters without its folder, or off")
    return written


_MARKER_NAME = {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[^/]+$"}


@dataclass(frozen=True)
class SnapshotRule:
    """What holds a whole copy of the source table: its rows replace those of the table, once it is complete."""

    replace: str | None = setting(
        None,
        choice(OBJECT, FOLDER, GENERATION),
        "What is one full dump: an `object`; the objects below a `folder`, complete with its marker; or all "
        "objects of the table's `generation`, complete with a marker in the topic's folder. "
        "Rows that a complete dump lacks are deleted.",
        default_text="none",
    )
    marker: str = setting(
        MARKER,
        Value(_marker, {"anyOf": [{"const": False}, _MARKER_NAME]}, lambda marker: marker or "off"),
        "The name of the file that says that a folder or generation is complete. `off`: a folder is complete once "
        "an object of a later one comes.",
    )
    most_deleted: int = setting(
        50,
        whole(0, 100),
        "The most rows that a dump may delete, in percent of the rows before and after. A dump that lacks more is "
        "refused, and so is an empty one; `100` allows both.",
    )

    @property
    def awaits_marker(self) -> bool:
        """Whether an object of its own says that a dump is complete."""
        return self.replace in (FOLDER, GENERATION) and bool(self.marker)

    @property
    def awaits_next(self) -> bool:
        """Whether a folder is complete once a later one begins."""
        return self.replace == FOLDER and not self.marker
