"""Keeps the Iceberg tables of a run's Hudi tables up to date: after commits, and before cleanings delete files."""

from __future__ import annotations

from typing import Callable, Protocol

from sluice.config.table import COW
from sluice.ports import Clock, Log
from sluice_aws.s3.objects import Objects
from sluice_spark.errors import CleaningUnfinished, LaneLost
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.housekeeping import BeforeDelete
from sluice_spark.hudi.table import HudiTable
from sluice_spark.iceberg.follow import Followed, IcebergTable
from sluice_spark.log import describe


class Services(Protocol):
    """What of a run's services is needed here."""

    @property
    def objects(self) -> Objects:
        """The driver's S3."""
        ...

    @property
    def clock(self) -> Clock:
        """The time of day."""
        ...

    @property
    def log(self) -> Log:
        """The run's log."""
        ...


def has_iceberg(hudi: HudiTable) -> bool:
    """Whether an Iceberg table is kept beside a Hudi table."""
    return hudi.config.iceberg and hudi.config.table_type == COW


def keep_up(
    hudi: HudiTable, facts: TableFacts, services: Services, check_held: Callable[[], None], *, rebuild: bool = False
) -> Followed | None:
    """Bring the Iceberg table up to the newest commit of `facts`; None where there is nothing to do.

    `rebuild` writes it again. Raises IcebergRaced, and what `check_held` raises.
    """
    if not has_iceberg(hudi) or facts.schema is None:
        return None
    began = services.clock.now_ms()
    types = {field.name: field.dataType.simpleString() for field in facts.schema.fields}
    table = IcebergTable(services.objects, hudi.path, hudi.config, check_held)
    followed = table.follow(facts.timeline, types, now_ms=began, rebuild=rebuild)
    if followed is not None:
        services.log.event(
            "iceberg_followed",
            table=hudi.config.table,
            instant=followed.instant,
            version=followed.version,
            added=followed.added,
            removed=followed.removed,
            deletes=followed.deletes,
            seconds=(services.clock.now_ms() - began) / 1000,
        )
    return followed


def keep_up_or_log(hudi: HudiTable, facts: TableFacts, services: Services, check_held: Callable[[], None]) -> bool:
    """`keep_up` where the rows are committed already: a failure is logged, and False.

    The caller then forgets the table's facts, so that the next batch looks again before its own commit. Raises
    LaneLost.
    """
    try:
        keep_up(hudi, facts, services, check_held)
    except LaneLost:
        raise
    except Exception as failure:  # of S3, of a file that can't be read: of any kind
        services.log.failure("iceberg_failed", failure, table=hudi.config.table)
        return False
    return True


def before_cleaning(hudi: HudiTable, services: Services, check_held: Callable[[], None]) -> BeforeDelete:
    """What a cleaning calls before it deletes files, so that no snapshot names one that is gone.

    Raises CleaningUnfinished where that can't be made sure of, and LaneLost.
    """

    def take_out(instant: str, horizon: str) -> None:
        if not has_iceberg(hudi):
            return
        try:
            keep_up(hudi, hudi.look(), services, check_held)
            IcebergTable(services.objects, hudi.path, hudi.config, check_held).before_cleaning(instant, horizon)
        except LaneLost:
            raise
        except Exception as failure:
            raise CleaningUnfinished(
                f"{hudi.config.table}: cleaning waits for the Iceberg table: {describe(failure)}",
                table=hudi.config.table,
                instant=instant,
            ) from failure

    return take_out
