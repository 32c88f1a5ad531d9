"""What a command would bring to the lanes: objects and bytes by table, with an estimate, and the pace of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from sluice.cost import Assumptions, Once, backlog_once
from sluice_aws.stack import LOCAL, Target
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.options import option
from sluice_cli.terminal.output import print_line
from sluice_cli.terminal.words import counted, human_age, human_bytes

TABLES_SHOWN = 20
RATE = 200
SHOWN_FROM_S = 60  # of a local estimate, which is too rough for less
_DEPLOYED, _LOCALLY = Assumptions(), Assumptions(start_s=0.0)
Rate = Annotated[int, option("--rate N", "Maximum number of objects per second.", min=1, max=10_000)]


@dataclass
class Workload:
    """Objects that a run would merge, by table, and those that are left, by the reason."""

    objects: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def add(self, table: str, size: int) -> None:
        """Add one object of a table."""
        self.objects[table] += 1
        self.bytes[table] += size

    @property
    def total(self) -> int:
        """The number of objects."""
        return sum(self.objects.values())

    def shown(self, target: Target, rate: int, *, as_json: bool) -> dict[str, Any]:
        """Print it for people unless `as_json`, and return the JSON form, with the estimate by the region's prices.

        `rate` objects per second become pending at most. A run of a deployed stack has to start first. A local one
        starts within seconds, and costs nothing.
        """
        from sluice_cli.account.region_prices import prices_for  # not for the help of a verb

        prices, local = prices_for(target), target.kind == LOCAL
        merged_s = self._once(_LOCALLY if local else _DEPLOYED).seconds
        seconds, usd = round(max(self.total / rate, merged_s)), self._once(Assumptions(prices)).usd
        if not as_json:
            for line in self._lines():
                print_line(line)
            about = f"estimate: about {human_age(seconds * 1000)}"
            if local and seconds >= SHOWN_FROM_S:
                print_line(about)
            elif self.total and not local:
                print_line(f"{about} with the start of a run, {usd:.2f} US dollars ({prices.described(target.region)})")
        return {
            "objects": self.total,
            "bytes": sum(self.bytes.values()),
            "tables": {
                table: {"objects": number, "bytes": self.bytes[table]} for table, number in sorted(self.objects.items())
            },
            "left": dict(sorted(self.left.items())),
            "estimate": {
                "seconds": seconds,
                "usd": None if local else round(usd, 4),
                "prices": {"as_of": prices.as_of, "region": prices.region},
            },
        }

    def _lines(self) -> Iterator[str]:
        size = human_bytes(sum(self.bytes.values()))
        yield f"to merge: {counted(self.total, 'object')}, {size}, {counted(len(self.objects), 'table')}"
        for table, number in self.objects.most_common(TABLES_SHOWN):
            yield f"  {visible(table)}: {counted(number, 'object')}, {human_bytes(self.bytes[table])}"
        if len(self.objects) > TABLES_SHOWN:
            yield f"  and {counted(len(self.objects) - TABLES_SHOWN, 'more table')} (--json lists all)"
        for reason, number in sorted(self.left.items()):
            yield f"left: {counted(number, 'object')}: {visible(reason)}"

    def _once(self, given: Assumptions) -> Once:
        return backlog_once(self.total, sum(self.bytes.values()) / 1e6, len(self.objects), given)


class Throttle:
    """Holds a loop to so many objects or messages per second."""

    def __init__(
        self, rate: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._rate, self._clock, self._sleep = rate, clock, sleep
        self._began = clock()
        self._done = 0

    def after(self, number: int) -> None:
        """Wait until so many more may have been written."""
        self._done += number
        ahead = self._done / self._rate - (self._clock() - self._began)
        if ahead > 0:
            self._sleep(ahead)
