"""The kept report of a soak, docs/evidence/soak.json, and the page made from it, docs/evidence/soak.md.

python -m soaking.report
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from soaking.faults import FAULTS
from soaking.world import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "evidence"
KEPT, PAGE = DOCS / "soak.json", DOCS / "soak.md"

_HEAD = """# Soak

The tables at the end of this page get generated changes on the local stack (real Spark and Hudi, with S3 and DynamoDB
emulated) while random faults strike, table services on. At the end all is committed, and every table is judged: it
holds the rows that were generated, with `history` also every change once. With `append_only` it holds each record once
for every key under which its object came; with `columns` it lacks what is left out; with `expect` exactly the
unexpected rows are in quarantine. `sluice verify` and `sluice audit` find nothing, no unfinished instant and no file of
one is left, and no lane halted. Made from [soak.json](soak.json), the report of one run. Don't edit by hand.

`make soak` runs it for 20 minutes, `make soak MINUTES=5 SEED=1` shorter and with another seed. The seed decides on the
objects, the faults and their order; how far Spark has come when a fault strikes differs from run to run.

**Recovery** counts from the strike, or from the end of a fault that lasts, until everything that was put until then is
committed. Other faults strike meanwhile.
"""


def kept(file: Path = KEPT) -> Mapping[str, Any] | None:
    """The kept report; None before the first run."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def page(report: Mapping[str, Any] | None) -> str:
    """The page of a report."""
    if report is None:
        return f"{_HEAD}\nNot run yet.\n"
    machine, memory, recovery = report["machine"], report["memory_mb"], report["recovery_s"]
    aside = report.get("aside", 0)
    strikes = {fault.name: fault.strikes for fault in FAULTS}
    services = ", ".join(f"{name} ({count})" for name, count in report["services"].items()) or "none was due"
    return "\n".join(
        [
            _HEAD,
            f"**{'Clean' if report['clean'] else 'Not clean'}**: {report['lost']} of {report['rows']:,} rows lost, "
            f"{report['doubled']} doubled, {report['wrong']} wrong"
            f"{f', {aside:,} rightly set aside' if aside else ''}. Recovery after {_times(recovery['all'])}.",
            "",
            *(f"- **{kind}**: {'; '.join(items[:5])}" for kind, items in report["problems"].items()),
            *([""] if report["problems"] else []),
            "| | |",
            "|---|---|",
            f"| run | {report['minutes']:g} minutes, a fault every {report['fault_every_s']:g} s, "
            f"seed {report['seed']}; {report['at']}, commit {machine['commit']} |",
            f"| machine | {machine['cores']} cores, load {machine['load_1_5_15'][1]} |",
            f"| changes | {report['changes']:,} in {report['objects']:,} objects, repeated ones included |",
            f"| commits | {report['commits']:,} of {report['tables']} tables in {report['batches']:,} batches, by "
            f"{report['job_runs']} job runs |",
            f"| table services | {services} |",
            f"| settled | {report['settled_s']:g} s after the last change |",
            f"| memory | after a fifth of the time {_memory(memory['after_a_fifth'])}, at the end "
            f"{_memory(memory['at_the_end'])}; drivers {memory['largest_drivers']:,} MB at most |",
            "",
            "| fault | what it is | times | recovery |",
            "|---|---|---:|---|",
            *(
                f"| `{name}` | {strikes[name]} | {count} | {_times(recovery[name])} |"
                for name, count in report["faults"].items()
            ),
            "",
            "| table | type | what is special |",
            "|---|---|---|",
            *(f"| `{name}` | {table_type} | {what} |" for name, table_type, what in report["special"]),
            "",
        ]
    )


def keep(report: Mapping[str, Any], file: Path = KEPT, into: Path = PAGE) -> None:
    """Write the report and its page."""
    file.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    into.write_text(page(report), encoding="utf-8")


def _times(times: Mapping[str, float]) -> str:
    return f"{times['p50']:g} s (p50), {times['p95']:g} s (p95)" if times["n"] else "none"


def _memory(memory: Mapping[str, int]) -> str:
    return (
        f"the emulator {memory['emulator']:,} MB and {memory['function_processes']} functions' processes "
        f"{memory['functions']:,} MB"
    )


def special() -> list[list[str]]:
    """The tables of a soak: name, type, and what is special about their rules."""
    return [[name, table.rule["table_type"], _described(table.rule)] for name, table in TABLES.items()]


def _described(rule: Mapping[str, Any]) -> str:
    told = {name: value for name, value in rule.items() if name != "table_type" and value not in ([], False)}
    return ", ".join(name if value is True else f"{name}: {_value(value)}" for name, value in told.items())


def _value(value: Any) -> str:
    """A list in words; of `columns` what becomes of them, and of `expect` the columns."""
    if isinstance(value, Mapping):
        return " ".join(value.get("columns", value))
    return " ".join(value) if isinstance(value, list) else str(value)


def main() -> None:
    """Make the page anew from the kept report."""
    PAGE.write_text(page(kept()), encoding="utf-8")


if __name__ == "__main__":
    main()
