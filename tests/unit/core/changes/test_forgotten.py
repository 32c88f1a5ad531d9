"""Marks of forgotten rows."""

from sluice.changes.forgotten import MOST_MARKS, key_hash, marks, with_mark


def test_a_hash_depends_on_the_table_and_on_each_value_of_the_key():
    hashes = {key_hash("db.t", ["1"]), key_hash("db.u", ["1"]), key_hash("db.t", ["1", "2"]), key_hash("db.t", ["12"])}
    assert len(hashes) == 4 and all(len(hash) == 64 for hash in hashes)


def test_a_mark_rises_and_never_falls():
    noted = with_mark(with_mark(None, "a", "0000.2"), "b", "0000.5")
    assert marks(with_mark(noted, "a", "0000.1")) == {"a": "0000.2", "b": "0000.5"}
    assert marks(with_mark(noted, "a", "0000.3"))["a"] == "0000.3" and marks(None) == {}


def test_marks_are_bounded_but_a_known_one_may_rise():
    noted = None
    for number in range(MOST_MARKS):
        noted = with_mark(noted, f"{number}", "1")
    assert with_mark(noted, "one more", "1") is None
    assert marks(with_mark(noted, "0", "2"))["0"] == "2"
