"""The judged cases: set x delivery order x pace x table type, and the selection for continuous integration."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from judging.fixture_sets import PLANS, Delivered, FixtureSet, Keyed, Phase

ONE_GO, PHASED = "one_go", "phased"
TABLE_TYPES = ("cow", "mor")


@dataclass(frozen=True)
class Case:
    """One way to land one set. `run` (lower-case letters and digits) sets apart repetitions of a case on one stack."""

    set_name: str
    order: str
    pace: str
    table_type: str
    run: str = ""

    @property
    def id(self) -> str:
        """Names the case in results: tickit_small-shuffled-phased-mor."""
        return f"{self.set_name}-{self.order}-{self.pace}-{self.table_type}"

    @property
    def database(self) -> str:
        """The silver database of this case alone."""
        return "_".join(part for part in ("judged", *self.id.replace("-", "_").split("_"), self.run) if part)

    def topic(self, topic: str) -> str:
        """This case's name for a recorded topic.

        Many cases can share a bucket, since an object's content includes neither its key nor its topic.
        """
        return f"{self.database}.{topic}"

    def key(self, key: str) -> str:
        """This case's key for a recorded object: the topic is renamed in the folder and in the file's name."""
        *folders, name = key.split("/")
        topic = next(
            (topic for topic in PLANS[self.set_name].topics if name.startswith((f"{topic}+", f"{topic}("))), None
        )
        if topic is None:
            raise ValueError(f"the object's name does not begin with a topic of its set: {key}")
        return "/".join(
            (
                *(self.topic(topic) if folder == topic else folder for folder in folders),
                self.topic(topic) + name.removeprefix(topic),
            )
        )

    def table(self, topic: str) -> str:
        """The silver table of a recorded topic: database.name."""
        return f"{self.database}.{topic.rsplit('.', 1)[1]}"

    def rules(self, topics: Mapping[str, Keyed]) -> list[dict]:
        """The entries of tables.yaml that take this case's topics, and no other's."""
        return [
            {
                "topic": self.topic(topic),
                "table": self.table(topic),
                "record_key": list(keyed.record_key),
                "partition_by": list(keyed.partition_by),
                "table_type": self.table_type,
                "types": dict(keyed.json_types),
                **keyed.settings,
            }
            for topic, keyed in topics.items()
        ]

    def steps(self, fixtures: FixtureSet) -> tuple[tuple[Phase, tuple[Delivered, ...]], ...]:
        """The steps to a judgement each: the phase to judge, and the objects to put before it in delivery order."""
        if self.pace == ONE_GO:
            return ((fixtures.phases[-1], fixtures.delivery(self.order)),)
        return tuple((phase, fixtures.delivery(self.order, phase)) for phase in fixtures.phases)


# In continuous integration every pair of these occurs, and every other set and order in one case.
SETS = ("tickit_small", "moma_flat", "pagila_env")
AXES = (SETS, ("in_order", "shuffled", "reversed", "at_least_once"), (ONE_GO, PHASED), TABLE_TYPES)
SIDE_OBJECTS = Case("moma_keys", "shuffled", ONE_GO, "cow")
OTHERS = (
    SIDE_OBJECTS,
    Case("moma_flat_old", "first_object_last", ONE_GO, "mor"),
    Case("moma_crash", "neighbours_swapped", ONE_GO, "mor"),
    Case("moma_overwrite", "in_order", ONE_GO, "cow"),
    Case("outbox_json_confluent", "shuffled", PHASED, "mor"),
    Case("outbox_json_lenses", "at_least_once", PHASED, "cow"),
    # every type in both table types: tests/spark/test_recorded_types.py
    Case("types_flat_precise", "reversed", PHASED, "mor"),
    # Every form in both table types: tests/spark/test_recorded_sets.py.
    Case("shop_json_flat", "shuffled", ONE_GO, "mor"),
    Case("shop_json_env", "reversed", ONE_GO, "cow"),
    Case("shop_json_of_avro", "at_least_once", ONE_GO, "mor"),
    Case("shop_json_wrapped", "shuffled", ONE_GO, "cow"),
    Case("shop_cloudevents", "reversed", ONE_GO, "mor"),
    Case("shop_avro_bzip2", "in_order", ONE_GO, "cow"),
    Case("shop_pq_snappy", "reversed", ONE_GO, "mor"),
    Case("shop_pq_zstd", "shuffled", ONE_GO, "cow"),
    Case("pg_arrays", "at_least_once", PHASED, "mor"),
    Case("pg_toast_vector", "reversed", PHASED, "cow"),
    Case("pg_identity_index", "shuffled", ONE_GO, "mor"),
    Case("pg_types_isostring", "reversed", PHASED, "cow"),
)


def matrix() -> Iterator[Case]:
    """Every case: all sets, in all the orders they list."""
    for plan in PLANS.values():
        paces = (ONE_GO, PHASED) if plan.phased else (ONE_GO,)
        yield from (Case(plan.name, *values) for values in itertools.product(plan.orders, paces, TABLE_TYPES))


def pairwise() -> tuple[Case, ...]:
    """The fewest cases found greedily in which every pair of values of two different AXES occurs."""
    left = [Case(*values) for values in itertools.product(*AXES)]
    wanted = set().union(*(_pairs(case) for case in left))
    chosen: list[Case] = []
    while wanted:
        # The first of equals: the result is always the same.
        best = max(left, key=lambda case: len(_pairs(case) & wanted))
        chosen.append(best)
        left.remove(best)
        wanted -= _pairs(best)
    return tuple(chosen)


def _pairs(case: Case) -> set[tuple[tuple[int, str], tuple[int, str]]]:
    values = enumerate((case.set_name, case.order, case.pace, case.table_type))
    return set(itertools.combinations(values, 2))
