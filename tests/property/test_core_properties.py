"""Properties of every position, notice, key, schema and configuration."""

import json
import string
from urllib.parse import quote, quote_plus

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.admission.notices import MAX_EXCERPT, parse_body
from sluice.admission.routing import CHANGE_FILE, IGNORED, UNROUTABLE, classify
from sluice.changes.position import encode
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.errors import Incompatible, SluiceError, Unordered
from sluice.names import TOPIC
from sluice.objects import ObjectId
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import RowSchema, decimal_column, plain_column
from sluice.schema.union import merge_schemas

NUMBERS = st.integers(0, 2**63 - 1)
GENERATIONS = st.integers(0, 9_999)
BINLOGS = st.integers(0, 10**12).map(lambda number: f"mysql-bin.{number:06d}")
MYSQL = st.tuples(GENERATIONS, BINLOGS, NUMBERS, st.integers(0, 2**31 - 1), NUMBERS)
POSTGRES = st.tuples(GENERATIONS, NUMBERS, NUMBERS)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(POSTGRES, POSTGRES)
def test_the_order_of_postgres_positions_is_the_order_of_their_parts(first, second):
    assert (
        encode(first[0], "postgres", first[1:-1], first[-1]) < encode(second[0], "postgres", second[1:-1], second[-1])
    ) == (first < second)


@given(MYSQL, MYSQL, st.integers(0, 4))
def test_mysql_positions_are_ordered_by_their_parts_with_the_binlog_as_a_number(first, second, shared):
    second = first[:shared] + second[shared:]
    by_number = [(g, int(file.rpartition(".")[2]), pos, row, offset) for g, file, pos, row, offset in (first, second)]
    assert (
        encode(first[0], "mysql", first[1:-1], first[-1]) < encode(second[0], "mysql", second[1:-1], second[-1])
    ) == (by_number[0] < by_number[1])


@given(
    st.one_of(st.integers(-10, 10_010), st.none(), st.text(max_size=3)),
    st.sampled_from(["postgres", "mysql", "sqlserver", "oracle", "mongodb", "offset"]),
    st.lists(JSON, max_size=4),
    st.one_of(st.integers(), st.none()),
)
def test_a_position_is_either_of_the_stored_form_or_refused(generation, kind, components, offset):
    try:
        stored = encode(generation, kind, components, offset)
    except Unordered:
        return
    lengths = {"offset": 25, "postgres": 46, "mysql": 78, "sqlserver": 78, "oracle": 99, "mongodb": 57}
    assert set(stored) <= set(string.hexdigits + ".") and len(stored) == lengths[kind]


@given(KEYS, st.booleans())
def test_every_key_comes_back_from_its_notice_as_it_was(key, plus):
    if len(key.encode()) > 1024:
        return
    encoded = quote_plus(key, safe="/") if plus else quote(key, safe="/")
    bucket, expected = {"bucket": {"name": "b"}}, [ObjectId("b", key, "v")]
    record = {"eventName": "ObjectCreated:Put", "s3": {**bucket, "object": {"key": encoded, "versionId": "v"}}}
    assert [notice.id for notice in parse_body(json.dumps({"Records": [record]})).notices] == expected
    detail = {**bucket, "object": {"key": key, "version-id": "v"}}
    event = {"detail-type": "Object Created", "source": "aws.s3", "detail": detail}
    assert [notice.id for notice in parse_body(json.dumps(event)).notices] == expected


RECORDS = st.fixed_dictionaries(
    {"eventName": st.just("ObjectCreated:Put"), "s3": st.fixed_dictionaries({"bucket": JSON, "object": JSON})}
)


@given(JSON | st.fixed_dictionaries({"Records": st.lists(RECORDS, max_size=4)}))
def test_no_message_breaks_the_parser_and_every_record_of_it_is_accounted_for(message):
    parsed = parse_body(json.dumps(message))
    records = message["Records"] if isinstance(message, dict) and isinstance(message.get("Records"), list) else [None]
    assert len(parsed.notices) + len(parsed.ignored) == len(records)
    assert all(len(ignored.excerpt) <= MAX_EXCERPT for ignored in parsed.ignored)


@given(st.text(max_size=50))
def test_no_body_breaks_the_parser(body):
    parse_body(body)


FOLDERS = "topics tombstone a.b t+0+1.avro t(0_1).avro x.keys.avro _x partition=1 é x.json".split()


@given(st.lists(st.sampled_from([*FOLDERS, "", " "]), max_size=6).map("/".join) | KEYS, st.none() | st.integers(0, 10))
def test_every_key_is_routed_ignored_by_a_rule_or_reported_with_a_reason(key, size):
    route = classify(key, size)
    if route.kind == CHANGE_FILE:
        assert TOPIC.fullmatch(route.topic) and route.format
    else:
        assert (route.kind == IGNORED and route.rule) or (route.kind == UNROUTABLE and route.reason)


MEMBERS = "type name items values fields connect.name logicalType precision scale connect.parameters namespace".split()
AVRO = st.recursive(
    st.sampled_from(["null", "int", "long", "string", "bytes", "Value", "map", "array", "record", 5, None, ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=15,
)


@given(AVRO, AVRO)
def test_a_schema_is_understood_or_refused_and_never_breaks_the_reader(field, whole):
    flat = [{"name": "a", "type": field}]
    sides = [{"name": name, "type": kind} for name, kind in (("op", "string"), ("source", field), ("after", whole))]
    records = [{"type": "record", "name": name, "fields": fields} for name, fields in (("Value", flat), ("E", sides))]
    for schema in (whole, *records):
        try:
            read_writer_schema(schema)
        except SluiceError as error:
            assert str(error)


TIMES = [f"{kind}_{unit}" for kind in ("timestamp", "time") for unit in ("millis", "micros", "nanos")]
TIMES.append("zoned_timestamp")
COLUMNS = st.sampled_from(["int", "long", "float", "double", "string", *TIMES]).map(
    lambda kind: plain_column("c", kind, False, kind)
) | st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda digits: digits[1] <= digits[0]).map(
    lambda digits: decimal_column("c", *digits, False, "decimal")
)
ROWS = st.lists(COLUMNS, max_size=4).map(
    lambda columns: RowSchema(
        tuple(
            plain_column(f"c{number}", column.kind, False, "x")
            if column.kind != "decimal"
            else decimal_column(f"c{number}", column.precision, column.scale, False, "x")
            for number, column in enumerate(columns)
        )
    )
)


def types(schema):
    return {(column.name, column.kind, column.spark_type) for column in schema.columns}


def merged(*schemas):
    try:
        result = schemas[0]
        for schema in schemas[1:]:
            result = merge_schemas(result, schema)
        return types(result)
    except Incompatible:
        return "incompatible"


@given(ROWS, ROWS, ROWS)
def test_the_union_of_schemas_does_not_depend_on_their_order(first, second, third):
    assert merged(first, second) == merged(second, first)
    assert merged(first, first) == types(first)
    results = [merged(first, second, third), merged(third, second, first), merged(second, third, first)]
    assert results[0] == results[1] == results[2]


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=8)
RULES = st.builds(
    TableRule,
    topic=st.tuples(NAMES, NAMES).map(".".join),
    table=st.tuples(NAMES, NAMES).map(".".join),
    record_key=st.lists(NAMES, min_size=1, max_size=2).map(tuple),
    partition_by=st.lists(NAMES, max_size=2).map(tuple),
    freshness_s=st.integers(0, 10**6),
    hudi=st.dictionaries(NAMES, NAMES, max_size=2),
    paused=st.booleans(),
)


@settings(max_examples=50)
@given(st.lists(RULES, max_size=4), st.lists(NAMES, max_size=2, unique=True))
def test_a_configuration_survives_its_canonical_json(rules, lanes):
    configuration = Configuration(rules=tuple(rules), lanes=tuple(LaneConfig(name=name) for name in lanes))
    assert Configuration.from_json(configuration.to_json()) == configuration
    for rule in rules:
        first = next(other for other in rules if other.topic == rule.topic)
        assert configuration.table_for_topic(rule.topic).table == first.table
