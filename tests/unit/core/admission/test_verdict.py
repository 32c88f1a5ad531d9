"""The decision of admission on an object from what it has read of it."""

from sluice.admission.routing import classify
from sluice.admission.verdict import MAX_REASON, NO_CONFIGURATION, judge_read, judge_unread, judge_unreadable
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.errors import SluiceError
from sluice_formats.errors import CorruptObject


def test_a_topic_that_would_name_the_database_sluice_is_parked_with_the_reason():
    rule = TableRule("{1}.{2}", ("id",), topic="x.*.*")
    route = classify("topics/x._sluice.manifests/x._sluice.manifests+0+1.avro", 10)
    verdict = judge_read(route, Configuration((rule,)))
    assert (verdict.state, verdict.table) == ("parked", None)
    assert "'_sluice.manifests'; names are a lower-case letter, then" in verdict.reason


def test_a_change_file_is_read_before_it_is_judged():
    assert judge_unread(classify("topics/t/t+0+1.avro", 10), 10) is None
    assert judge_unread(classify("topics/t/t+0+1.avro", None), None) is None
    route, configuration = classify("topics/t/t+0+1.avro", 10), Configuration((TableRule("a.t", ("id",), topic="t"),))
    assert judge_read(route, None).reason == NO_CONFIGURATION
    assert judge_read(route, configuration).table == "a.t"


def test_a_reason_that_quotes_an_object_is_bounded():
    verdict = judge_unreadable(CorruptObject("x" * 10_000))
    assert (verdict.state, verdict.code, len(verdict.reason)) == ("quarantined", "corrupt_object", MAX_REASON)
    assert judge_unreadable(SluiceError("y")).code == "error"
