"""A run may write only where its lane's tables are, by the emulator's evaluation of IAM policies."""

import json
from dataclasses import replace

import pytest
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.lane.job_policy import EVERYTHING, MAX_POLICY_CHARACTERS, Scope, job_run_policy, lane_prefixes, scope_of
from sluice.schema.history import seen_key, stored_key
from sluice.silver_keys import error_key, manifest_key, outcome_key, replaced_prefix, rows_key, schema_key

ORDERS = TableRule("shop.orders", ("id",), topic="shop.public.orders")
BIG = TableRule("shop.big", ("id",), topic="shop.public.big", lane="big")
PATTERN = TableRule("crm.t_{1}", ("id",), topic="crm.*", lane="big")
BOTH = Configuration((ORDERS, BIG, PATTERN))
LEDGER = "arn:aws:dynamodb:eu-central-1:123456789012:table/ledger"
ON_OBJECTS = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
ALLOWED = [
    {"Effect": "Allow", "Action": ON_OBJECTS, "Resource": "arn:aws:s3:::silver/*"},
    {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": LEDGER},
]
ROLE = [parse_policy_document({"Version": "2012-10-17", "Statement": ALLOWED})]


def policy(prefixes, silver="silver"):
    return job_run_policy(prefixes, lane="main", partition="aws", silver=silver)


def may(prefixes, action, resource):
    who = "arn:aws:sts::123456789012:assumed-role/job/run", "AssumedRole", "123456789012"
    context = EvalContext(*who, action, resource, "eu-central-1")
    return evaluate(context, ROLE, [parse_policy_document(policy(prefixes))]).decision == "Allow"


OBJECT = "0123456789abcdef"


@pytest.mark.parametrize(
    "key",
    [
        "shop/orders/.hoodie/hoodie.properties",
        "shop/orders",
        "shop",
        "shop/orders/",
        manifest_key("main", "b"),
        outcome_key("b", "shop.orders"),
        error_key("b", "shop.orders", OBJECT),
        rows_key("b", "shop.orders", OBJECT),
        seen_key("shop.orders", OBJECT),
        stored_key("shop.orders"),
        schema_key(OBJECT),
    ],
)
def test_a_run_writes_its_lanes_tables_and_what_sluice_keeps_beside_them(key):
    assert may(lane_prefixes(BOTH, "main"), "s3:PutObject", f"arn:aws:s3:::silver/{key}")


@pytest.mark.parametrize(
    "key",
    [
        manifest_key("big", "b"),
        outcome_key("b", "shop.big"),
        outcome_key("b", "shop.orders_secret"),
        error_key("b", "shop.big", OBJECT),
        rows_key("b", "shop.big", OBJECT),
        seen_key("shop.big", OBJECT),
        stored_key("crm.t_user"),
        f"{replaced_prefix('shop.big', 1)}part.parquet",
        "_sluice/trials/trial-1.json",
        "_sluice/other",
    ],
)
def test_a_run_changes_nothing_that_sluice_keeps_for_another_lane(key):
    for action in ON_OBJECTS:
        assert not may(lane_prefixes(BOTH, "main"), action, f"arn:aws:s3:::silver/{key}")


def test_no_run_removes_a_schema_that_others_read():
    assert not may(lane_prefixes(BOTH, "main"), "s3:DeleteObject", f"arn:aws:s3:::silver/{schema_key(OBJECT)}")


@pytest.mark.parametrize(
    "key", ["shop/big/part.parquet", "shop/orders_secret/part.parquet", "crm/t_user/part.parquet", "elsewhere"]
)
def test_a_run_neither_writes_nor_reads_another_lanes_tables(key):
    for action in ON_OBJECTS:
        assert not may(lane_prefixes(BOTH, "main"), action, f"arn:aws:s3:::silver/{key}")


@pytest.mark.parametrize(
    "key",
    ["shop/orders_history/part.parquet", "shop/orders_history", stored_key("shop.orders_history"), "shop/orders/x"],
)
def test_a_run_writes_the_history_table_of_its_lanes_tables(key):
    with_history = lane_prefixes(Configuration((replace(ORDERS, history=True), BIG)), "main")
    assert may(with_history, "s3:PutObject", f"arn:aws:s3:::silver/{key}")
    assert not may(lane_prefixes(BOTH, "main"), "s3:PutObject", "arn:aws:s3:::silver/shop/orders_history/part.parquet")
    assert not may(with_history, "s3:PutObject", "arn:aws:s3:::silver/shop/big_history/part.parquet")
    in_log = lane_prefixes(Configuration((replace(ORDERS, history="log"),)), "main")
    assert may(in_log, "s3:PutObject", "arn:aws:s3:::silver/shop/log/part.parquet")
    unfinished = scope_of(BOTH, "main", ["crm.moved"]).prefixes
    assert may(unfinished, "s3:PutObject", "arn:aws:s3:::silver/crm/moved_history/part.parquet")


def test_what_a_pattern_fills_in_is_a_wildcard():
    assert lane_prefixes(BOTH, "big") == ("crm/t_*", "shop/big")
    assert may(lane_prefixes(BOTH, "big"), "s3:PutObject", "arn:aws:s3:::silver/crm/t_user/part.parquet")
    assert not may(lane_prefixes(BOTH, "big"), "s3:PutObject", "arn:aws:s3:::silver/shop/orders/part.parquet")


def test_a_pattern_that_fills_in_the_database_is_the_whole_bucket():
    anywhere = lane_prefixes(Configuration((TableRule("{1}.{2}", ("id",), topic="x.*.*"),)), "main")
    assert anywhere == ("*/*",) and may(anywhere, "s3:PutObject", "arn:aws:s3:::silver/any/table")


def test_everything_but_s3_is_left_to_the_role():
    assert may(("shop/orders",), "dynamodb:GetItem", LEDGER)
    assert not may(("shop/orders",), "dynamodb:PutItem", LEDGER)
    assert not may(EVERYTHING, "s3:PutBucketPolicy", "arn:aws:s3:::silver")


@pytest.mark.parametrize(
    "tables, narrowed",
    [
        (4, ["db0/table_number_0", "_sluice/*/db0.table_number_0/*", "_sluice/manifests/main/*"]),
        (8, ["db0/table_number_0", "_sluice/*/db0.*", "_sluice/manifests/main/*"]),
        (9, ["db0/table_number_0", "_sluice/outcomes/*", "_sluice/manifests/main/*"]),
        (40, ["db0/*", "_sluice/*/db0.*", "_sluice/manifests/main/*"]),
        (4_000, ["*"]),
    ],
    ids=["all by table", "documents by database", "documents of all", "all by database", "bucket"],
)
def test_a_policy_has_at_most_2048_characters_and_is_as_narrow_as_that_allows(tables, narrowed):
    prefixes = [f"db{n if tables > 1000 else n % 3}/table_number_{n}" for n in range(tables)]
    written = policy(prefixes, silver="s" * 32)
    assert max(len(written), len(policy(prefixes, silver="s" * 63))) <= MAX_POLICY_CHARACTERS
    allowed = json.loads(written)["Statement"][2]["Resource"]
    assert {f"arn:aws:s3:::{'s' * 32}/{key}" for key in narrowed} <= set(allowed)


def test_tables_of_an_unfinished_batch_belong_to_the_scope_and_not_to_its_name():
    name, prefixes = scope_of(BOTH, "main").name, ("crm/moved", "crm/moved_history", "shop/orders")
    assert scope_of(BOTH, "main", ["crm.moved"]) == Scope(name, prefixes)


def test_a_scope_changes_its_name_with_its_lanes_tables_alone():
    new = TableRule("shop.new", ("id",), topic="n")
    names = [scope_of(Configuration(rules), "main").name for rules in ((ORDERS, BIG), (ORDERS, new))]
    assert names[0] == scope_of(BOTH, "main").name != names[1]
    assert scope_of(None, "main") == Scope("", EVERYTHING)


def test_no_name_reaches_a_policy_that_could_widen_it():
    assert lane_prefixes(Configuration((TableRule('a"b.c/../d', ("id",), topic="x"),)), "main") == ("*/*",)
