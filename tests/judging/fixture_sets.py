"""Recorded sets of change objects: their folders, phases, delivery orders, and the keys of their tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

BUNDLED = Path(__file__).resolve().parents[1] / "data"
ORDERS = ("in_order", "shuffled", "reversed", "at_least_once", "neighbours_swapped", "first_object_last")
SIDE_FILES = (".keys.avro", ".headers.avro")


@dataclass(frozen=True)
class Keyed:
    """A table's record key and partition columns; the latter are columns that the recorded changes modify, if any.

    `json_types` are the column types that JSON without a schema lacks; `settings` are other keys of the rule.
    """

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    json_types: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SetPlan:
    """How a set is judged: how its tables (by topic) are keyed, and the delivery orders that it lists.

    A set of overwritten keys lists no order: its object versions are put in their original order, in one go.
    """

    name: str
    topics: Mapping[str, Keyed]
    orders: tuple[str, ...] = ORDERS
    phased: bool = True


@dataclass(frozen=True)
class Delivered:
    """One object to put: its recorded key and the file that holds its bytes."""

    key: str
    file: Path


@dataclass(frozen=True)
class Phase:
    """One phase: its name and its new objects' keys in arrival order."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class FixtureSet:
    """A set on disk."""

    plan: SetPlan
    folder: Path
    phases: tuple[Phase, ...]
    orders: Mapping[str, tuple[Delivered, ...]]

    def delivery(self, order: str, phase: Phase | None = None) -> tuple[Delivered, ...]:
        """Objects in the order they are put, repetitions included; of one phase, or of all."""
        keys = frozenset(phase.keys) if phase else frozenset(key for each in self.phases for key in each.keys)
        return tuple(item for item in self.orders[order] if item.key in keys)

    def side_objects(self) -> int:
        """How many objects carry no changes: keys, headers, tombstones."""
        return sum(key.endswith(SIDE_FILES) or "/tombstone/" in key for phase in self.phases for key in phase.keys)


class SetMissing(LookupError):
    """The set is neither bundled nor in a folder that SLUICE_FIXTURES names."""


_ORDERS = Keyed(
    ("order_id",),
    ("customer_id",),
    MappingProxyType(
        {"order_date": "date", "required_date": "date", "shipped_date": "date", "updated_at": "zoned_timestamp"}
    ),
)
_SHOP_TYPES = MappingProxyType(
    {
        "amount": "base64 decimal(10,2)",
        "money_": "base64 decimal(38,2)",
        "placed": "zoned_timestamp",
        "made": "timestamp_micros",
        "day": "date",
        "at": "time_micros",
        "bin": "bytes",
        "score": "double",
    }
)
_RECORDED_ORDERS = ("in_order", "reversed", "shuffled", "at_least_once")


def _shop(name: str, server: str, *, types: bool = False) -> SetPlan:
    """A set of a shop's three tables, in one of the forms of Kafka Connect. `types`: its records say none."""
    keyed = {"k2": "bytes", "k3": "base64 decimal(6,2)", "k": "zoned_timestamp"}
    topics = {
        f"{server}.public.orders": Keyed(("id",), json_types=_SHOP_TYPES if types else {}),
        f"{server}.public.items": Keyed(
            ("order_id", "line"), json_types={"price": "base64 decimal(12,3)"} if types else {}
        ),
        f"{server}.public.keyed": Keyed(("k", "k2", "k3"), json_types=keyed if types else {}),
    }
    return SetPlan(name, MappingProxyType(topics), _RECORDED_ORDERS, phased=False)


def _recorded(name: str, *tables: str, **settings: Any) -> SetPlan:
    """A set of PostgreSQL tables with the key `id`."""
    topics = {table: Keyed(("id",), settings=settings) for table in tables}
    return SetPlan(name, MappingProxyType(topics), _RECORDED_ORDERS)


_ARTISTS, _ARTWORKS = Keyed(("artist_id",), ("nationality",)), Keyed(("artwork_id",), ("classification",))

PLANS: Mapping[str, SetPlan] = MappingProxyType(
    {
        plan.name: plan
        for plan in (
            SetPlan(
                "tickit_small",
                MappingProxyType(
                    {
                        "tickit.ems.category": Keyed(("catid",)),
                        "tickit.ems.event": Keyed(("eventid",), ("catid",)),
                        "tickit.ems.venue": Keyed(("venueid",)),
                        "tickit.crm.user": Keyed(("userid",), ("state",)),
                        "tickit.ecomm.date": Keyed(("dateid",)),
                        "tickit.ecomm.listing": Keyed(("listid",)),
                        "tickit.ecomm.sale": Keyed(("salesid",)),
                    }
                ),
            ),
            SetPlan(
                "moma_flat", MappingProxyType({"moma.public.artists": _ARTISTS, "moma.public.artworks": _ARTWORKS})
            ),
            SetPlan(
                "pagila_env",
                MappingProxyType(
                    {
                        "pagila.public.film": Keyed(("film_id",), ("rating",)),
                        "pagila.public.customer": Keyed(("customer_id",), ("store_id",)),
                        "pagila.public.rental": Keyed(("rental_id",)),
                    }
                ),
            ),
            SetPlan("types_flat_precise", MappingProxyType({"tzflatprecise.public.zoo": Keyed(("id",))})),
            SetPlan("moma_keys", MappingProxyType({"momac283.public.artists": _ARTISTS})),
            SetPlan(
                "moma_flat_old",
                MappingProxyType({"momaold.public.artists": _ARTISTS, "momaold.public.artworks": _ARTWORKS}),
            ),
            SetPlan("moma_crash", MappingProxyType({"momac283.public.artists": _ARTISTS})),
            SetPlan(
                "moma_overwrite",
                MappingProxyType({"momac181.public.artists": _ARTISTS}),
                orders=("in_order",),
                phased=False,
            ),
            SetPlan("outbox_json_confluent", MappingProxyType({"demo.datalake.cdc_events": _ORDERS})),
            SetPlan("outbox_json_lenses", MappingProxyType({"demo.datalake.cdc_events": _ORDERS})),
            _shop("shop_json_flat", "shj", types=True),
            _shop("shop_json_env", "shk", types=True),
            _shop("shop_json_of_avro", "shf", types=True),
            _shop("shop_json_wrapped", "shw"),
            _shop("shop_cloudevents", "shc", types=True),
            _shop("shop_avro_bzip2", "shf"),
            _shop("shop_pq_snappy", "shf"),
            _shop("shop_pq_zstd", "shf"),
            _recorded("pg_arrays", "pgf.public.arr", "pgf.public.arr2"),
            _recorded("pg_toast_vector", "pgf.public.t_def", null_is_unchanged=["bvec"]),
            _recorded("pg_identity_index", "pgf.public.t_idx", null_is_unchanged=["bvec"]),
            _recorded("pg_types_isostring", "pge.public.zoo"),
        )
    }
)


def find_set(name: str, environment: Mapping[str, str]) -> FixtureSet:
    """Open a planned set, bundled or under SLUICE_FIXTURES.

    Raises SetMissing, which names the variable to set, and KeyError for a set without a plan.
    """
    plan = PLANS[name]
    shared = shared_folders(environment)
    folders = (each / name for each in (BUNDLED, *shared))
    folder = next((each for each in folders if (each / "manifest.json").exists()), None)
    if folder is None:
        raise SetMissing(
            f"{name} is not bundled: let SLUICE_FIXTURES name the folder that holds it"
            + (f" (it is not in {', '.join(map(str, shared))})" if shared else "")
        )
    manifest = json.loads((folder / "manifest.json").read_text())
    phases = tuple(Phase(phase["phase"], tuple(phase["new_objects"])) for phase in manifest["phases"])
    return FixtureSet(plan, folder, phases, MappingProxyType(_orders(folder)))


def shared_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of sets that SLUICE_FIXTURES names, divided as PATH is."""
    return tuple(Path(path) for path in environment.get("SLUICE_FIXTURES", "").split(os.pathsep) if path)


def _orders(folder: Path) -> dict[str, tuple[Delivered, ...]]:
    listed = folder / "delivery_orders.json"
    if listed.exists():
        return {
            order: tuple(Delivered(key, folder / "bronze" / key) for key in keys)
            for order, keys in json.loads(listed.read_text()).items()
        }
    versions = sorted(json.loads((folder / "versions.json").read_text()), key=lambda version: version["seq"])
    return {
        "in_order": tuple(
            Delivered(version["key"], folder / "bronze_versions" / version["file"]) for version in versions
        )
    }
