"""kill -9 of the driver while it compacts, clusters or cleans a table."""

from __future__ import annotations

from collections.abc import Callable

from faulting.fault import COW, MOR, Fault
from faulting.scene import Scene
from faulting.state import driver_clock

HOUR_AND_A_HALF_S = 5400  # ago, behind a time travel of one hour


def killed_in(service: str, suffix: str) -> Callable[[Scene], None]:
    """Ask for a service of a table, and kill the driver behind the file that begins it on the timeline."""

    def act(scene: Scene) -> None:
        scene.world.put_round()
        scene.wait_settled()
        if service == "compaction":
            scene.world.put_updates()
            scene.wait_settled()
        table = scene.world.tables[0]
        with scene.trap(scene.timeline_put(suffix, table), after=True) as trap:
            scene.stack.sluice("ops", "services", "run", table, "--service", service)
            scene.caught(trap)
            scene.kill_driver()
        # Until the next run has carried it out, what is unfinished on the timeline is no orphan.
        scene.stack.sluice("ops", "services", "run", table, "--service", service, "--wait", "240")

    return act


def hour_old_history(scene: Scene) -> None:
    """Write rounds by a driver whose clock is behind: they rewrite small files, and cleaning then has work."""
    driver_clock(-HOUR_AND_A_HALF_S)(scene)
    for _ in range(2):
        scene.world.put_round()
        scene.stack.wait(300, strict=False)
    scene.behave()
    scene.fresh_run()


SERVICES: tuple[Fault, ...] = (
    Fault(
        "killed_during_clustering_cow",
        "kill -9 of the driver: a clustering is inflight",
        killed_in("clustering", r"replacecommit\.inflight"),
        COW,
        rules=(("services", {"clustering": {"by": ["venueid"], "commits": 50}}),),
    ),
    Fault(
        "killed_during_compaction_mor",
        "kill -9 of the driver: a compaction is inflight",
        killed_in("compaction", r"compaction\.inflight"),
        MOR,
    ),
    *(
        Fault(
            f"killed_during_cleaning_{table_type}",
            "kill -9 of the driver: a cleaning is inflight, and its files are about to be deleted",
            killed_in("cleaning", r"clean\.inflight"),
            table_type,
            rules=(("time_travel", "1h"),),
            before=hour_old_history,
        )
        for table_type in (COW, MOR)
    ),
)
