"""What a Hudi bundle links to is read from its classes, and compared with what reflection says of an engine."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass

import pytest

from sluice.engine.links import (
    ABSENT,
    CHANGED_KIND,
    CLASS,
    CONSTRUCTOR,
    FIELD,
    INTERFACE_METHOD,
    METHOD,
    Link,
    constructors_in,
    fields_in,
    interfaces_in,
    judge,
    links_of,
    methods_in,
    needed,
)
from sluice.engine.report import Engine, EngineReport, report_key, report_of
from sluice.errors import EngineDoesNotFit, NotAClass, UnreadableReport
from sluice_spark.engine.check import bundle_checksum, bundle_links
from sluice_spark.errors import NotAJar

ROW = "org/apache/spark/sql/Row"
ENGINE = Engine("3.5.8-amzn-0", "3.4.2-amzn-2", "2.12.18", "17.0.1")


@dataclass(frozen=True)
class Declared:
    """A class that reflection has told of whole; `members` None where it can't."""

    members: frozenset[tuple[str, str]] | None = frozenset()
    parents: tuple[str, ...] = ()
    interface: bool = False

    def declares(self, name, descriptor):
        return None if self.members is None else (name, descriptor) in self.members


NOTHING = Declared()
FACTS = Declared(
    methods_in(
        "[public static final java.lang.String[] org.apache.spark.sql.Row.names(int,java.lang.String[]) throws java.io.IOException,java.lang.Error, private void org.apache.spark.sql.Row.own()]"
    )
    | constructors_in("[protected org.apache.spark.sql.Row(long), private org.apache.spark.sql.Row()]")
    | fields_in(
        "[public static final org.apache.spark.sql.Row$ org.apache.spark.sql.Row.MODULE, private int org.apache.spark.sql.Row.x]"
    ),
    ("java/lang/Object", *interfaces_in("[interface org.apache.spark.sql.Base]")),
)
ABOVE = {"java/lang/Object": NOTHING, "org/apache/spark/sql/Base": NOTHING}


def compiled(*entries: object) -> bytes:
    """A class file with a constant pool of these links, and of every kind of entry that has to be skipped."""
    pool: list[bytes] = []

    def put(raw: bytes) -> int:
        pool.append(raw)
        return len(pool) + sum(one[0] in (5, 6) for one in pool[:-1])

    def text(value: str) -> int:
        return put(struct.pack(">BH", 1, len(value.encode())) + value.encode())

    for skipped in (
        struct.pack(">BI", 3, 1),
        struct.pack(">BQ", 5, 1),
        struct.pack(">Bd", 6, 1.0),
        struct.pack(">BBH", 15, 1, 1),
        struct.pack(">BHH", 18, 0, 1),
        struct.pack(">BH", 8, 1),
    ):
        put(skipped)
    for link in entries:
        assert isinstance(link, Link)
        owner = put(struct.pack(">BH", 7, text(link.owner)))
        if link.kind != CLASS:
            name_and_type = put(struct.pack(">BHH", 12, text(link.name), text(link.descriptor)))
            put(struct.pack(">BHH", {FIELD: 9, METHOD: 10, INTERFACE_METHOD: 11}[link.kind], owner, name_and_type))
    return (
        b"\xca\xfe\xba\xbe\0\0\0\x34"
        + struct.pack(">H", len(pool) + 1 + sum(one[0] in (5, 6) for one in pool))
        + b"".join(pool)
        + b"\0" * 12
    )


LINKS = [
    Link(ROW, METHOD, "names", "(I[Ljava/lang/String;)[Ljava/lang/String;"), Link(ROW, METHOD, CONSTRUCTOR, "(J)V"), Link(ROW, FIELD, "MODULE", f"L{ROW}$;"),
    Link("scala/Function1", INTERFACE_METHOD, "apply", "(Ljava/lang/Object;)Ljava/lang/Object;"),
]  # fmt: skip


def test_links_are_the_classes_fields_and_methods_that_a_constant_pool_names():
    found = links_of(
        compiled(*LINKS, Link("java/lang/String", METHOD, "length", "()I"), Link("[Lorg/apache/spark/sql/Column;")),
        ("org/apache/spark/", "scala/"),
    )
    assert found == {*LINKS, Link(ROW), Link("scala/Function1"), Link("org/apache/spark/sql/Column")}


@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4", compiled(*LINKS)[:-60], compiled(*LINKS).replace(b"\x07", b"\x63", 1)]
)
def test_bytes_that_are_no_whole_class_are_refused(content):
    with pytest.raises(NotAClass):
        links_of(content, ("org/apache/spark/",))


def test_a_link_is_told_as_a_person_writes_it():
    assert [str(link) for link in LINKS[:3]] == [
        "org.apache.spark.sql.Row.names(int, java.lang.String[]): java.lang.String[]",
        "org.apache.spark.sql.Row(long)",
        "org.apache.spark.sql.Row.MODULE: org.apache.spark.sql.Row$",
    ]


def verdict(*links, classes=None, baseline=(ROW,)):
    known = {ROW: FACTS, **(classes or {})}
    return judge({link: ["org/apache/hudi/A"] for link in links}, known.get, baseline=baseline)


def test_what_an_engine_has_is_found_in_a_class_and_above_it():
    base = Declared(methods_in("[int org.apache.spark.sql.Base.size()]"))
    assert not verdict(
        *LINKS[:3], Link(ROW, METHOD, "size", "()I"), classes={"org/apache/spark/sql/Base": base}
    ).missing


@pytest.mark.parametrize("link", [
    Link(ROW, METHOD, "names", "(I)[Ljava/lang/String;"), Link(ROW, METHOD, "names", "(I[Ljava/lang/String;)V"), Link(ROW, METHOD, "own", "()V"),
    Link(ROW, METHOD, CONSTRUCTOR, "()V"), Link(ROW, FIELD, "MODULE", "I"),
])  # fmt: skip
def test_a_member_of_another_type_or_out_of_reach_is_missing(link):
    (found,) = verdict(link, classes=ABOVE).missing
    assert (found.link, found.why, found.users) == (link, ABSENT, ("org/apache/hudi/A",))


def test_a_class_that_became_an_interface_is_missing():
    assert [found.why for found in verdict(Link(ROW, INTERFACE_METHOD, "names", "(I)V")).missing] == [CHANGED_KIND]


def test_an_absent_class_is_missing_where_the_pinned_bundle_links_to_it_and_told_otherwise():
    links = [Link("org/apache/spark/Gone"), Link("org/apache/spark/Gone", METHOD, "a", "()V")]
    assert [found.link for found in verdict(*links, baseline=["org/apache/spark/Gone"]).missing] == links[:1]
    other = verdict(*links)
    assert (other.missing, [found.link for found in other.unknown]) == ((), links[:1])


def test_what_reflection_cannot_list_refuses_nothing_and_is_counted():
    for classes in (
        {},
        {**ABOVE, ROW: Declared(None)},
    ):  # what is above the class isn't known here, or the class names what isn't there
        found = verdict(Link(ROW, METHOD, "other", "()V"), classes=classes)
        assert (found.unchecked, found.missing) == (1, ())


def test_links_into_the_bundle_itself_hdfs_and_hive_are_nobodys_need():
    links = [
        Link(ROW),
        Link("org/apache/spark/sql/hudi/A"),
        Link("org/apache/hadoop/hdfs/B"),
        Link("org/apache/hadoop/hive/C"),
    ]
    assert needed(links, {"org/apache/spark/sql/hudi/A"}) == {Link(ROW)}


def test_a_bundles_links_are_those_of_its_own_classes_and_its_checksum_follows_what_is_in_it(tmp_path):
    def jar(name, extra=b""):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("org/apache/hudi/A.class"), compiled(*LINKS[:1]))
            archive.writestr(zipfile.ZipInfo("org/apache/hudi/org/shaded/B.class"), compiled(LINKS[3]) + extra)
            archive.comment = b"a comment"
        return tmp_path / name

    assert dict(bundle_links(jar("one.jar"))) == {link: ["org/apache/hudi/A"] for link in (LINKS[0], Link(ROW))}
    assert bundle_checksum(jar("one.jar")) == bundle_checksum(jar("two.jar")) != bundle_checksum(jar("three.jar", b"x"))
    (tmp_path / "none.jar").write_bytes(b"no jar")
    with pytest.raises(NotAJar):
        bundle_checksum(tmp_path / "none.jar")


def test_a_report_comes_back_as_it_was_and_refuses_until_what_is_missing_is_accepted():
    report = report_of(
        verdict(Link(ROW, METHOD, "own", "()V"), classes=ABOVE),
        bundle="b",
        jar="hudi.jar",
        hudi="1.0.2",
        engine=ENGINE,
        checked_at=1,
    )
    assert EngineReport.from_json(report.to_json()) == report and not report.fits
    refusal = report.refusal()
    assert (
        isinstance(refusal, EngineDoesNotFit)
        and not refusal.retriable
        and "Row.own(): void" in str(refusal)
        and "`sluice doctor --job`" in str(refusal)
    )
    accepted = report.accept("somebody")
    assert accepted.fits and accepted.key == report.key == report_key("b", ENGINE) != report_key("c", ENGINE)
    for damaged in ("", "{}", report.to_json().replace('"format": 1', '"format": 2')):
        with pytest.raises(UnreadableReport):
            EngineReport.from_json(damaged)
