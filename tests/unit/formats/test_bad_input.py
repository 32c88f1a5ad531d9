"""Bad input is refused under a code of its own, at admission or in its task, and every such code has a case."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from support.bad_input import CASES, GOOD, KEYS, LIMITS, TOPIC, Case, good_avro, good_change

import sluice
import sluice_aws
import sluice_formats
import sluice_spark
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import in_words
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.errors import CommandFailed, SluiceError
from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId
from sluice.schema.avro import read_writer_schema
from sluice_aws.admission.admit import Admission
from sluice_aws.admission.heads import Heads, read_head
from sluice_aws.errors import ObjectArchived, ObjectGone
from sluice_aws.s3.objects import Objects
from sluice_formats.avro_header import Head
from sluice_formats.decode import decode, is_scanned, schemas_of
from sluice_spark.merge.plan import plan_read

RULE = TableRule(table="db.t", record_key=("id",), topic=TOPIC, limits=LIMITS)
CONFIGURATION = Configuration((RULE,))
CONFIG = CONFIGURATION.table_for_topic(TOPIC)
STORED = plan_read(CONFIG, batch="b", writers=[read_writer_schema(json.loads(json.dumps(GOOD)))], stored=None).target

#: Codes that are not about what an object or a row holds, by who meets them instead.
OF_OTHERS = {
    "nobody": "error header_cut no_hash_key schema_not_inferred unchanged",
    "tests/unit/formats/test_expectations.py": "unexpected_value",
    "tests/unit/core/schema/test_table_evolution.py": "schema_frozen",
    "the driver": """
        batch_taken clock_behind commit_not_newest hash_key_changed hash_key_unusable iceberg_raced instant_came_back
        lane_lost rows_differ rows_not_written spark_died still_unfinished table_differs table_went_back tasks_left
        unknown_job_run unusable_pattern write_undone""",
    "a take-over, claiming or settling": """
        foreign_objects manifest_missing two_topics unreadable_manifest unsettled_parts""",
    "the start of a run": "no_hudi_bundle unusable_request",
    "a function": """
        announcement_refused configuration_missing configuration_unreadable lanes_failed ledger_busy settings_missing
        unidentified_object""",
    "table services and housekeeping": "cleaning_unfinished service_not_for_table service_unfinished",
    "the command line": """
        change_refused invalid_configuration lane_not_paused move_incomplete no_statement not_adoptable row_remains
        too_many_forgotten unreadable_report unreadable_schema_history""",
    "reading a timeline": "no_such_commit unreadable_commit",
    "catalog sync": """
        catalog_denied catalog_name_taken catalog_partition_keys_differ catalog_raced catalog_refused iceberg_behind
        table_not_configured unexpected_partition unusable_catalog_request unusable_commit_schema""",
}
#: Codes of input that no bytes of an object alone can bring about: tests of the modules that refuse it have them.
ELSEWHERE = """
    below_purge_floor delete_without_key dump_incomplete dump_lacks_rows fails_its_merge given_up inexact_record_key
    key_not_unique kills_its_run lost_before_read no_coordinates object_archived other_source_table overlap ragged_csv
    unreadable_object unsupported_format unusable_partition_value unusable_record_key"""


class Bucket:
    """S3 with one object."""

    def __init__(self, body: bytes | None) -> None:
        self.body = body

    def head_bytes(self, id: ObjectId, limit: int) -> Head:
        return Head(self._there()[:limit], len(self._there()) <= limit)

    def tail_bytes(self, id: ObjectId, limit: int) -> Head:
        return Head(self._there()[-limit:], len(self._there()) <= limit)

    def _there(self) -> bytes:
        if self.body is None:
            raise ObjectGone("The object was gone before it could be read")
        return self.body


class Schemas:
    def keep(self, schema: Any) -> str:
        return "f" * 32


class NoTableYet:
    """What a schema is compared with at admission: here nothing, so that the plan of the batch refuses it."""

    def check(self, writer: Any, config: Any) -> None: ...


class Archive:
    """S3 whose every object a lifecycle rule has moved to an archive."""

    def get_object(self, **_: Any) -> None:
        raise ClientError({"Error": {"Code": "InvalidObjectState", "StorageClass": "DEEP_ARCHIVE"}}, "GetObject")


def judged(key: str, size: int | None, body: bytes | None, bucket: Any = None) -> tuple[str, str]:
    """State, and code, rule or reason, by admission alone."""
    parts = {"heads": Heads(bucket or Bucket(body)), "schemas": Schemas(), "fit": NoTableYet()}
    admission = Admission(ledger=None, **parts, arrival=lambda id: None, now=lambda: 0)
    _, verdict, _ = admission.judge(ObjectId("bronze", key, "v"), size, CONFIGURATION)
    return verdict.state, verdict.code or verdict.rule or verdict.reason or ""


def becomes(case: Case) -> tuple[str, str, int]:
    """What becomes of an object: refused at its head, in its table's plan or in its task, or merged less some rows."""
    return refused(case)[:3]


def refused(case: Case) -> tuple[str, str, int, str]:
    """What becomes of an object, and in which words."""
    key = f"topics/{TOPIC}/partition=0/{TOPIC}+0+0000000500.{case.ending}"
    state, code = judged(key, len(case.body), case.body)
    if state != PENDING:
        return state, code, 0, ""
    item = ManifestObject("bronze", key, "v", len(case.body), None, case.ending.partition(".")[0], TOPIC, 0, 500, 0)
    try:
        if is_scanned(item.format, None):
            schemas, inferred = schemas_of(case.body, item.format, CONFIG)
        else:
            schemas, inferred = [read_head(Bucket(case.body), item.id, item.format, LIMITS)], False
        writers = [read_writer_schema(json.loads(json.dumps(schema))) for schema in schemas]
        stored = STORED if code_of_stored(case) else None
        by_object = {item.id.hash: json.dumps(schemas[0])} if inferred else None
        planned = plan_read(CONFIG, batch="b", writers=writers, stored=stored, inferred=by_object)
        if planned.refused:
            error = next(iter(planned.refused.values()))
            return "quarantined", error.code, 0, in_words(error)
        decoded = decode(case.body, item, planned.plan)
    except SluiceError as error:
        assert not error.retriable and error.next_step, "a refusal says what to do"
        return "quarantined", error.code, 0, in_words(error)
    row = decoded.rows[0] if decoded.rows else None
    return "merged", row.code if row else "", len(decoded.rows), row.reason if row else ""


def code_of_stored(case: Case) -> bool:
    """Whether the case is about the table that is there already."""
    return case.code == "incompatible_schema"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_refused_under_its_code(case: Case) -> None:
    assert becomes(case) == (("merged", case.code, case.rows) if case.rows else ("quarantined", case.code, 0))


@pytest.mark.parametrize("code", sorted({case.code for case in CASES}))
def test_a_reason_names_what_the_next_step_is_about(code: str) -> None:
    texts = {case.name: text for case in CASES if case.code == code and (text := refused(case)[3])}
    for name, text in texts.items():
        assert "set_int_max" not in text and ("Error(" not in text or code == "corrupt_object"), (name, text)
        message, step = text.split(". ", 1)
        assert "; cause:" not in step and "; column:" not in step, "facts stand with the message"
        if code == "expansion_limit":
            assert re.search(r"the table's limit (block_bytes|decoded_bytes|object_rows) and push it", step), name
        if code == "unordered_change":
            assert "__lsn" in message
        if code == "too_many_bad_rows":
            assert re.search(r"one of them, record \d+: ", message)
        if code == "undecodable_value":
            assert message.startswith("Column ")


@pytest.mark.parametrize(("key", "size", "state", "why"), KEYS, ids=[key[-40:] for key, *_ in KEYS])
def test_a_key_that_leads_nowhere_is_parked_or_ignored_with_the_reason(key: str, size: int, state: str, why: str):
    verdict = judged(key, size, good_avro(good_change()))
    assert verdict[0] == state and why in verdict[1]


def test_an_object_deleted_before_it_is_read_is_lost() -> None:
    assert judged(f"topics/{TOPIC}/{TOPIC}+0+1.avro", 10, None) == ("quarantined", "lost_before_read")


@pytest.mark.parametrize("ending", ["avro", "json", "parquet"])
def test_an_archived_object_is_set_aside_until_restored_and_stops_no_other(ending: str) -> None:
    expected = ("quarantined", "object_archived")
    assert judged(f"topics/{TOPIC}/{TOPIC}+0+1.{ending}", 10, None, Objects(Archive())) == expected
    # And so by a run that comes after the rule did: it isn't S3's trouble, which Spark would repeat.
    with pytest.raises(ObjectArchived) as refused:
        Objects(Archive()).whole(ObjectId("bronze", "k", "v"))
    assert not refused.value.retriable and refused.value.facts["storage_class"] == "DEEP_ARCHIVE"


def test_a_format_that_no_reader_has_is_refused_in_its_task() -> None:
    plan = plan_read(CONFIG, batch="b", writers=[], stored=None).plan
    with pytest.raises(SluiceError) as refused:
        decode(b"x", ManifestObject("bronze", "k.orc", "v", 1, None, "orc", TOPIC, 0, 0, 0), plan)
    assert refused.value.code == "unsupported_format"


def test_every_code_that_refuses_input_has_a_case() -> None:
    of_input = {case.code for case in CASES} | set(ELSEWHERE.split())
    of_others = set(" ".join(OF_OTHERS.values()).split())
    codes = {item.code for item in errors_of(SluiceError)}
    assert codes - of_others == of_input, "a refusal that no bad input brings about, or a case of none"
    assert of_others - codes <= {"error"}
    assert len(CASES) + len(KEYS) >= 50 and max(Counter(case.name for case in CASES).values()) == 1


def errors_of(root: type[SluiceError]) -> Iterator[type[SluiceError]]:
    """Every kind of error of the functions and the job."""
    packages = (sluice, sluice_aws, sluice_formats, sluice_spark)
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    pending, names = [root], {package.__name__ for package in packages}
    while pending:
        for item in pending.pop().__subclasses__():
            if not issubclass(item, CommandFailed) and item.__module__.split(".")[0] in names:
                yield item
            pending.append(item)
