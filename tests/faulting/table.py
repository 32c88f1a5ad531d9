"""Every fault, in the order of docs/evidence/faults.md."""

from __future__ import annotations

from faulting.deaths import DEATHS
from faulting.fault import Fault
from faulting.notices import NOTICES
from faulting.services import SERVICES
from faulting.starts import STARTS
from faulting.state import STATE
from faulting.storage import STORAGE

FAULTS: tuple[Fault, ...] = (*DEATHS, *SERVICES, *STARTS, *STORAGE, *NOTICES, *STATE)


def named(names: list[str]) -> list[Fault]:
    """The faults whose names begin with one of these, or all; in the table's order. Raises ValueError for others."""
    unknown = [name for name in names if not any(fault.name.startswith(name) for fault in FAULTS)]
    if unknown:
        raise ValueError(f"no fault begins with {', '.join(unknown)}")
    return [fault for fault in FAULTS if not names or fault.name.startswith(tuple(names))]
