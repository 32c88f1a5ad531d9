"""Recorded sets of change objects: where they are, their phases, their delivery orders, and how their tables are keyed."""
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

BUNDLED = Path(__file__).resolve().parents[1] / "data"
ORDERS = ("in_order", "shuffled", "reversed", "at_least_once")
SIDE_FILES = (".keys.avro", ".headers.avro")


@dataclass(frozen=True)
class Keyed:
    """A table's record key, and the columns it is partitioned by: those whose values the recorded changes move, where there are such."""

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetPlan:
    """Which part of a set is judged: through which phase, and how its tables (by topic) are keyed."""

    name: str
    through: str
    topics: Mapping[str, Keyed]


@dataclass(frozen=True)
class Phase:
    """One phase: its name and its new objects' keys in arrival order."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class FixtureSet:
    """A set on disk, cut at the plan's last phase."""

    plan: SetPlan
    folder: Path
    phases: tuple[Phase, ...]
    orders: Mapping[str, tuple[str, ...]]

    def delivery(self, order: str, phase: Phase | None = None) -> tuple[str, ...]:
        """Keys in the order they are put, repetitions included; of one phase, or of all."""
        keys = frozenset(phase.keys) if phase else frozenset(key for each in self.phases for key in each.keys)
        return tuple(key for key in self.orders[order] if key in keys)

    def path(self, key: str) -> Path:
        """The file that holds an object's bytes."""
        return self.folder / "bronze" / key

    def side_objects(self) -> int:
        """How many objects carry no changes: keys, headers, tombstones."""
        return sum(key.endswith(SIDE_FILES) or "/tombstone/" in key for each in self.phases for key in each.keys)


class SetMissing(LookupError):
    """The set is neither bundled nor in the folder that SLUICE_FIXTURES names."""


PLANS: Mapping[str, SetPlan] = MappingProxyType({plan.name: plan for plan in (
    SetPlan("tickit_small", "changes", MappingProxyType({
        "tickit.ems.category": Keyed(("catid",)), "tickit.ems.event": Keyed(("eventid",), ("catid",)), "tickit.ems.venue": Keyed(("venueid",)),
        "tickit.crm.user": Keyed(("userid",), ("state",)), "tickit.ecomm.date": Keyed(("dateid",)), "tickit.ecomm.listing": Keyed(("listid",)),
        "tickit.ecomm.sale": Keyed(("salesid",))})),
    SetPlan("moma_flat", "deletes_full_identity", MappingProxyType({
        "moma.public.artists": Keyed(("artist_id",), ("nationality",)), "moma.public.artworks": Keyed(("artwork_id",), ("classification",))})),
    SetPlan("pagila_env", "deletes", MappingProxyType({
        "pagila.public.film": Keyed(("film_id",), ("rating",)), "pagila.public.customer": Keyed(("customer_id",), ("store_id",)),
        "pagila.public.rental": Keyed(("rental_id",))})),
    SetPlan("moma_keys", "final", MappingProxyType({"momac283.public.artists": Keyed(("artist_id",), ("nationality",))})),
)})


def find_set(name: str, environment: Mapping[str, str]) -> FixtureSet:
    """Open a planned set, bundled or under SLUICE_FIXTURES. Raises SetMissing with what to set, KeyError for a set that has no plan."""
    plan = PLANS[name]
    shared = environment.get("SLUICE_FIXTURES")
    folders = [BUNDLED / name, *([Path(shared) / name] if shared else [])]
    folder = next((each for each in folders if (each / "manifest.json").exists()), None)
    if folder is None:
        raise SetMissing(f"{name} is not bundled: set SLUICE_FIXTURES to the folder that holds it" + (f" (it is not in {shared})" if shared else ""))
    manifest = json.loads((folder / "manifest.json").read_text())
    phases = [Phase(phase["phase"], tuple(phase["new_objects"])) for phase in manifest["phases"]]
    last = [phase.name for phase in phases].index(plan.through)
    orders = {order: tuple(keys) for order, keys in json.loads((folder / "delivery_orders.json").read_text()).items()}
    return FixtureSet(plan, folder, tuple(phases[: last + 1]), MappingProxyType(orders))
