"""Results of judged cases that the repository keeps (docs/evidence/judged.json): another machine can continue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KEPT = Path(__file__).resolve().parents[3] / "docs" / "evidence" / "judged.json"


@dataclass(frozen=True)
class Judged:
    """A case's readings by reader, all and equal ones, with their total of rows and the commit that made the tables."""

    case: str
    commit: str
    readings: Mapping[str, int]
    equal: Mapping[str, int]
    rows: int

    @property
    def whole(self) -> bool:
        """Whether there are readings and all equal the source's rows."""
        return bool(self.readings) and self.readings == self.equal


def judged(result: Mapping[str, Any]) -> Judged:
    """The kept part of a result of the matrix."""
    readings: dict[str, int] = {}
    equal: dict[str, int] = {}
    for judgement in result["judgements"]:
        reader = judgement["reader"]
        readings[reader] = readings.get(reader, 0) + 1
        equal[reader] = equal.get(reader, 0) + bool(judgement["equal"])
    return Judged(
        result["case"],
        result["machine"]["commit"],
        readings,
        equal,
        sum(judgement["rows"] for judgement in result["judgements"]),
    )


def kept(file: Path = KEPT) -> dict[str, Judged]:
    """The kept results by case."""
    return {one["case"]: Judged(**one) for one in json.loads(file.read_text(encoding="utf-8"))} if file.exists() else {}


def keep(results: Iterable[Judged], file: Path = KEPT) -> None:
    """Replace the kept results of these cases. Each case is one line, so that a change is one line."""
    every = {**kept(file), **{entry.case: entry for entry in results}}
    lines = ",\n".join(json.dumps(asdict(every[case]), sort_keys=True) for case in sorted(every))
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
