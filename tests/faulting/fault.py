"""A fault as data: its name, what it does and where, and how near it comes to what happens on AWS."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from faulting.scene import Scene

COW, MOR = "cow", "mor"


@dataclass(frozen=True)
class Fault:
    """One fault. `act` puts objects, strikes and ends the fault; what follows is the same for all.

    `strikes` says where, as docs/evidence/faults.md does; `nearest` what differs from the fault on AWS, if anything.
    `sample`: `make test` runs it. `rules` are keys of tables.yaml for its tables. `before` is done before the first
    round of objects is put.
    """

    name: str
    strikes: str
    act: Callable[[Scene], None]
    table_type: str = COW
    sample: bool = False
    nearest: str = ""
    rules: tuple[tuple[str, object], ...] = ()
    before: Callable[[Scene], None] | None = None


def both_types(*given: Any, sampled: str | None = None, **more: Any) -> Iterable[Fault]:
    """A fault of these fields on copy-on-write and on merge-on-read tables; `sampled` is the type of the sample."""
    fault = Fault(*given, **more)
    for table_type in (COW, MOR):
        yield replace(fault, name=f"{fault.name}_{table_type}", table_type=table_type, sample=table_type == sampled)
