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
        keys = frozenset(phase.keys) if phase else frozenset(key for phase in self.phases for key in phase.keys)
        return tuple(item for item in self.orders[order] if item.key in keys)

    def side_objects(self) -> int:
        """How many objects carry no changes: keys, headers, tombstones."""
        return sum(key.endswith(SIDE_FILES) or "/tombstone/" in key for phase in self.phases for key in phase.keys)


class SetMissing(LookupError):
    """The set is neither bundled nor in a folder that SLUICE_FIXTURES names."""


_ORDER_TYPES = {name: "date" for name in ("order_date", "required_date", "shipped_date")}
_ORDERS = Keyed(("order_id",), ("customer_id",), {**_ORDER_TYPES, "updated_at": "zoned_timestamp"})
_SHOP_TYPES = {
    **{"amount": "base64 decimal(10,2)", "money_": "base64 decimal(38,2)", "bin": "bytes", "score": "double"},
    **{"placed": "zoned_timestamp", "made": "timestamp_micros", "day": "date", "at": "time_micros"},
}
_RECORDED_ORDERS = ("in_order", "reversed", "shuffled", "at_least_once")


def _shop(name: str, server: str, *, types: bool = False) -> SetPlan:
    """A set of a shop's three tables, in one of the forms of Kafka Connect. `types`: its records say none."""
    keyed = {"k2": "bytes", "k3": "base64 decimal(6,2)", "k": "zoned_timestamp"}
    items = {"price": "base64 decimal(12,3)"}
    topics = {
        f"{server}.public.orders": Keyed(("id",), json_types=_SHOP_TYPES if types else {}),
        f"{server}.public.items": Keyed(("order_id", "line"), json_types=items if types else {}),
        f"{server}.public.keyed": Keyed(("k", "k2", "k3"), json_types=keyed if types else {}),
    }
    return SetPlan(name, topics, _RECORDED_ORDERS, phased=False)


def _recorded(name: str, *tables: str, **settings: Any) -> SetPlan:
    """A set of PostgreSQL tables with the key `id`."""
    topics = {table: Keyed(("id",), settings=settings) for table in tables}
    return SetPlan(name, topics, _RECORDED_ORDERS)


def _in(schema: str, **tables: str) -> dict[str, Keyed]:
    """A schema's tables by topic: the key column of each, and behind a slash the partition column."""
    parts = {name: text.partition("/") for name, text in tables.items()}
    return {f"{schema}.{name}": Keyed((key,), (place,) if place else ()) for name, (key, _, place) in parts.items()}


_ARTISTS, _ARTWORKS = "artist_id/nationality", "artwork_id/classification"
_MOMA_CRASH = _in("momac283.public", artists=_ARTISTS)

PLANS: Mapping[str, SetPlan] = MappingProxyType(
    {
        plan.name: plan
        for plan in (
            SetPlan(
                "tickit_small",
                {
                    **_in("tickit.ems", category="catid", event="eventid/catid", venue="venueid"),
                    **_in("tickit.crm", user="userid/state"),
                    **_in("tickit.ecomm", date="dateid", listing="listid", sale="salesid"),
                },
            ),
            SetPlan("moma_flat", _in("moma.public", artists=_ARTISTS, artworks=_ARTWORKS)),
            SetPlan(
                "pagila_env",
                _in("pagila.public", film="film_id/rating", customer="customer_id/store_id", rental="rental_id"),
            ),
            SetPlan("types_flat_precise", _in("tzflatprecise.public", zoo="id")),
            SetPlan("moma_keys", _MOMA_CRASH),
            SetPlan("moma_flat_old", _in("momaold.public", artists=_ARTISTS, artworks=_ARTWORKS)),
            SetPlan("moma_crash", _MOMA_CRASH),
            SetPlan("moma_overwrite", _in("momac181.public", artists=_ARTISTS), orders=("in_order",), phased=False),
            SetPlan("outbox_json_confluent", {"demo.datalake.cdc_events": _ORDERS}),
            SetPlan("outbox_json_lenses", {"demo.datalake.cdc_events": _ORDERS}),
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
    folders = (folder / name for folder in (BUNDLED, *shared))
    folder = next((folder for folder in folders if (folder / "manifest.json").exists()), None)
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
