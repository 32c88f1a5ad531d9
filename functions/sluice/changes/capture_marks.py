"""The columns in which captures other than Debezium say what a change does to its row, and the words that they write.

Names are compared as a table stores them, in any case. Each vocabulary is that of the product's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sluice.names import stored_name


@dataclass(frozen=True)
class Vocabulary:
    """The words of a column of operations, in lower case.

    `before` are those of before-images: the row before an update, beside the row after it. `deletion` is what a rule
    names while no deletion was seen.
    """

    deletions: frozenset[str]
    before: frozenset[str]
    others: frozenset[str]
    deletion: str = "D"

    @property
    def words(self) -> frozenset[str]:
        return self.deletions | self.before | self.others


def _words(deletions: str, before: str, others: str, deletion: str = "D") -> Vocabulary:
    return Vocabulary(frozenset(deletions.split()), frozenset(before.split()), frozenset(others.split()), deletion)


# AWS DMS (Op, AR_H_OPERATION), GoldenGate (op_type), BigQuery, Flink and Paimon (row_kind), TiCDC, Snowflake
# (METADATA$ACTION), CockroachDB, Estuary, IBM SQL replication, Informatica, Talend, Oracle's Data Integrator and
# flashback queries, Infoworks, Firestore's export (IMPORT).
# https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html
# https://docs.delta.io/latest/delta-change-data-feed.html
_COMMON = _words(
    "d delete deleted -d",
    "update_preimage update_before update-delete -u",
    "i c r l u t insert create read load update upsert merge truncate refresh update_postimage update_after "
    "update-insert +i +u import",
)
_COMMON_COLUMNS = (
    "op _op __op op_type optype operation _operation operation_type _operation_type change_type "
    "change_operation _cdc_operation cdc_op _cdc_op dml_type row_kind _row_kind rowkind _meta_op "
    "ticdc_meta_operation metadata_action __crdb__event_type _metadata_change_type ibmsnap_operation "
    "sys_change_operation dmltype__ hoodie_operation dtl__capxaction infa_operation_type talend_cdc_type jrn_flag "
    "versions_operation ar_h_operation ziw_status_flag"
).split()
# SAP's replication flows, ODP and SLT, and IBM's InfoSphere write letters more: deletions of keys alone, and images of
# an update. In other columns they may be data. https://userapps.support.sap.com/sap/support/knowledge/en/3427972
_LETTERS = Vocabulary(_COMMON.deletions | {"x"}, _COMMON.before | {"b"}, _COMMON.others | {"a"})
# Delta, Iceberg and Materialize (mz_diff) compare two states of a table: of one key, what went comes before what came.
_DIFFERENCES = Vocabulary(_COMMON.deletions, _COMMON.before | {"delete"}, _COMMON.others)
_LETTER_COLUMNS = (
    "change_type operation_type __operation_type odq_changemode iuuc_operation _1dh_operation dm_operation_type"
).split()
_QLIK_END = "change_oper"  # behind a prefix of the task's own, header__ by default
_QLIK = _words("d", "b", "i u", "D")
_BY_COLUMN: Mapping[str, Vocabulary] = {
    **dict.fromkeys(_COMMON_COLUMNS, _COMMON),
    **dict.fromkeys(_LETTER_COLUMNS, _LETTERS),
    "___operation": _words("1", "3", "2 4 5", "1"),  # SQL Server's __$operation
    "hvr_op": _words("0 8 10", "3 4", "1 2 5 11 12 22 32 42 52", "0"),
    "_peerdb_record_type": _words("2", "", "0 1", "2"),
    "cdc_operation": Vocabulary(  # ScyllaDB's numbers, or others' words
        _COMMON.deletions | set("345678"), _COMMON.before | {"0"}, _COMMON.others | set("129")
    ),
    # Salesforce
    "_eventtype": _words("deleted delete", "", "created updated undeleted create update undelete", "deleted"),
    "event_type": _words("delete", "update_before", "insert update_after", "delete"),  # MariaDB's MaxScale
    "sdc_operation_type": _words("2", "", "1 3 4 5 6 7 8", "2"),  # StreamSets
    "_change_type": _DIFFERENCES,
    "mz_diff": _words("-1", "-1", "1", "-1"),
    "_sign": _words("-1", "", "1", "-1"),  # ClickHouse
    "dml_action": _words("delete", "before before_update", "insert after update after_update after_insert", "DELETE"),
    "type": _words(  # SingleStore's OBSERVE
        "delete", "", "insert update beginsnapshot commitsnapshot begintransaction committransaction", "Delete"
    ),
    "diff_type": _words("removed", "", "added modified", "removed"),  # Dolt
    "revtype": _words("2", "", "0 1", "2"),  # Hibernate's Envers
    "history_type": _words("-", "", "+ ~", "-"),  # Django's simple history
    "_value_kind": _words("3", "1", "0 2", "3"),  # Paimon
    "change_code": _words("2", "", "0 1 3", "2"),  # DataStage
    "mz_state": _words("delete", "", "insert update upsert key_violation", "delete"),  # Materialize's sinks
    "_tp_delta": _words("-1", "", "1", "-1"),  # Timeplus
    "__rowmarker__": _words("2", "", "0 1 4", "2"),  # Microsoft Fabric's open mirroring
    **dict.fromkeys(  # SAP's extractors: a reverse image takes the row back
        ("recordmode", "_0recordmode"), Vocabulary(frozenset("dr"), frozenset("x"), frozenset(("", *"nay")))
    ),
    "operation_": Vocabulary(frozenset(("d", "d ")), frozenset(("uo", "uu")), frozenset(("i", "i ", "un"))),  # Oracle
    # IBM's journal entries
    **dict.fromkeys(("a_enttyp", "_enttyp"), _words("dl dr", "ub br", "pt px up ur rr cr", "DL")),
}
# A column that no capture is known by holds operations if its name says so, or else its words do, and a deletion is
# among them: letters count beside a part of a name of the first kind, and words beside one of the second.
NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OF_OPERATIONS = frozenset("op ops opr oper operation opcode optype dml cdc iud crud".split())
_OF_EVENTS = frozenset("event action change mod mutation modification audit command cmd".split())
_EVENTS = _words(
    "d delete deleted del remove removed destroy destroyed erase erased",
    "update_before",
    "i u insert inserted ins create created add added update updated upd update_after upsert upserted modify modified "
    "change changed edit merge replace load read snapshot refresh truncate index",
)
_OPERATIONS = Vocabulary(_EVENTS.deletions, _EVENTS.before, _EVENTS.others | set("crlt"))
_ANYWHERE = _words("d delete remove", "", "i u insert update upsert modify merge replace load truncate snapshot")
_WRITES = frozenset("i insert ins update upsert modify merge replace".split())
# Columns of flags and of times of deletion: the values that mark one, none where any value but null does.
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "_ab_cdc_deleted_at": (),  # Airbyte
    "_sdc_deleted_at": (),  # Stitch and Singer
    "_fivetran_deleted": ("true",),
    "hoodie_is_deleted": ("true",),  # _hoodie_is_deleted, whose name Hudi keeps for itself
    "_peerdb_is_deleted": ("true",),
    "_metadata_deleted": ("true",),  # Google's Datastream
    "_snowflake_deleted": ("true",),  # Openflow
    "__hevo__marked_deleted": ("true",),
    "_sling_deleted_at": (),
    "_fivetran_active": ("false",),  # Fivetran's history mode: versions that ended
    "dbt_valid_to": (),
    "dbt_is_deleted": ("true",),
    "__end_at": (),  # Databricks
    "hvr_is_deleted": ("1", "true"),
    "_is_delete": ("true", "1"),  # Upsolver
    **dict.fromkeys(("_deleted", "_is_deleted"), ("true", "1")),  # CouchDB, Iceberg
    **dict.fromkeys(("isdelete", "isdeleted"), ("true", "1")),  # Azure Synapse Link for Dataverse; Salesforce
    "deleted_ts": (),  # dlt
}
# Names that others have, too, and the column beside them that tells the capture.
_BESIDE: Mapping[str, str] = {
    "deleted_ts": "_dlt_load_id",
    "isdelete": "sinkmodifiedon",
    "isdeleted": "systemmodstamp",
    "type": "internalid",
}
# Other flags, in the form of those above: a loader's own columns begin with `_`. Debezium's `__deleted` is read.
_FORMS_OF_FLAGS = (
    (re.compile(r"_(?!_deleted$).*(?:deleted|tombstone|delete_sign)_*|.*_cdc_deleted|kbc__deleted"), ("true", "1")),
    (re.compile(r"_.*_deleted_at"), ()),
)
# Columns at whose place a deletion comes before an insertion of its key: an update of an indexed column is both there,
# in either order (https://support.microsoft.com/help/3030352).
_OF_ONE_UPDATE: Mapping[str, tuple[str, ...]] = {"___operation": ("___seqval", "___command_id")}


def mark_text(value: Any) -> str | None:
    """The text of a value that marks a row: of text, also as bytes, a whole number, or true and false; else None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return str(value) if isinstance(value, (str, int)) else None


def _word(text: str | None) -> str:
    """A word of a vocabulary: in lower case, without the spaces of a text of fixed length."""
    return (text or "").strip().lower()


def _is_true(flag: Any) -> bool:
    return _word(mark_text(flag)) == "true"


def _is_negative(count: Any) -> bool:
    """Whether a number is below zero; also as text (`1-`, as ABAP writes it), and in the bytes of a decimal."""
    text = mark_text(count)
    if text is None and isinstance(count, bytes):
        return int.from_bytes(count, "big", signed=True) < 0
    written = _word(str(count) if text is None else text)
    return written.startswith("-") or written.endswith("-")


# The words of a column that say the first half of an update where another column beside it does as well: Snowflake's
# streams, and SAP's ODP, which counts the row before an update as -1.
_OF_UPDATES: Mapping[str, tuple[frozenset[str], str, Callable[[Any], bool]]] = {
    "metadata_action": (_COMMON.deletions, "METADATA_ISUPDATE", _is_true),
    "odq_changemode": (frozenset("u"), "ODQ_ENTITYCNTR", _is_negative),
}


def vocabulary(column: str) -> Vocabulary | None:
    """The words of a column of operations; None for a column of another name."""
    name = stored_name(column).lower()
    return _QLIK if name.endswith(_QLIK_END) else _BY_COLUMN.get(name)


@lru_cache(maxsize=8192)
def _flag(column: str) -> tuple[str, ...] | None:
    """The values by which a column flags deleted rows, none for any but null; None for a column that is no flag."""
    name = stored_name(column).lower()
    return _FLAGS.get(name, next((values for form, values in _FORMS_OF_FLAGS if form.fullmatch(name)), None))


def is_flag(column: str) -> bool:
    """True for the column by which a capture flags deleted rows."""
    return _flag(column) is not None


@lru_cache(maxsize=8192)
def _apparent_words(column: str) -> Vocabulary:
    """The words of a column of operations by no known name."""
    parts = {part.lower() for part in NAME_PARTS.findall(column)}
    return _OPERATIONS if parts & _OF_OPERATIONS else _EVENTS if parts & _OF_EVENTS else _ANYWHERE


def may_mark(column: str, value: Any) -> bool:
    """Whether a column with such a value may be one of operations, whatever its name is (`deletion_marks`)."""
    words = _apparent_words(column)
    return isinstance(value, (str, bytes)) and (words is _OPERATIONS or _word(mark_text(value)) in words.words)


def says_operation(field: str, value: Any) -> bool:
    """Whether a field of metadata says what a change does: by its name, and a word of one of the captures."""
    words = _apparent_words(field)
    return words is not _ANYWHERE and isinstance(value, str) and _word(value) in words.words


def marking_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns that captures mark deletions in, by their names."""
    stored = {name: stored_name(name).lower() for name in names}
    marking = (name for name in stored if vocabulary(name) is not None or is_flag(name))
    return tuple(name for name in marking if _BESIDE.get(stored[name], stored[name]) in stored.values())


def deletion_marks(column: str, values: Collection[Any], *, named: bool = True) -> tuple[str, ...] | None:
    """The values of a column that mark deletions, as a rule would name them; none: any value but null.

    None for a column that holds data: one of other words, or one that isn't `named` by a capture (`marking_columns`)
    and has no deletion. A column of operations has at least one of them.
    """
    texts = {mark_text(value) for value in values if value is not None}
    flag = _flag(column) if named else None
    if flag is not None:
        return tuple(sorted(text for text in texts if text and _word(text) in flag)) or flag
    marks = operations_marking(texts, vocabulary(column) if named else None)
    return _apparently_marking(_apparent_words(column), texts) if marks is None else marks


def _apparently_marking(words: Vocabulary, texts: Collection[str | None]) -> tuple[str, ...] | None:
    """The deletions among operations in a column by no known name; None where they may be data."""
    lowered = {_word(text) for text in texts}
    deletions = tuple(sorted(text for text in texts if text is not None and _word(text) in words.deletions))
    if words is _OPERATIONS and any(len(text) > 2 for text in deletions):  # whatever the others are called
        return deletions
    letters = all(len(text) == 1 for text in lowered)
    certain = words is _OPERATIONS or words is _EVENTS and not letters
    shown = lowered >= set("iud") if words is _ANYWHERE and letters else lowered & _WRITES
    return deletions if deletions and lowered <= words.words and (certain or shown) else None


def operations_marking(texts: Collection[str | None], words: Vocabulary | None = _COMMON) -> tuple[str, ...] | None:
    """The deletions among operations, or what one would be called; None where they aren't all of the vocabulary."""
    listed = [text for text in texts if text is not None]
    if (
        words is None
        or len(listed) < len(texts)
        or not listed
        or any(_word(text) not in words.words for text in listed)
    ):
        return None
    deletions = tuple(sorted(text for text in listed if _word(text) in words.deletions))
    return deletions or (_in_the_form_of(listed) if words in (_COMMON, _LETTERS, _DIFFERENCES) else words.deletion,)


def _in_the_form_of(operations: Sequence[str]) -> str:
    """What a deletion is called beside these operations."""
    one = max(operations, key=len).strip()
    mark = "-D" if one[0] in "+-" else "DELETE" if len(one) > 1 else "D"
    return mark if one.upper() == one else mark.lower()


TRUE, FALSE = frozenset(("true", "t", "1", "yes", "y", "\1")), frozenset(("false", "f", "0", "no", "n", "\0"))


def is_marked_deleted(value: Any) -> bool:
    """Whether a value of Debezium's mark (`__deleted`) says that the row was deleted."""
    return value != "false" and str(value).lower() in TRUE


def other_deletions(column: str, texts: Iterable[str | None], values: Collection[str]) -> tuple[str, ...]:
    """The deletions of a column that a rule doesn't name among its `values`.

    They are those of its capture, and the rule's in another case, in a text of fixed length, or as another word or
    byte for true or false.
    """
    words, named = vocabulary(column), {_word(value) for value in values}
    alike = (forms for forms in (TRUE, FALSE) if not named.isdisjoint(forms))
    deletions = named.union(() if words is None else words.deletions, *alike)
    return tuple(sorted(text for text in texts if text and _word(text) in deletions and text not in values))


def is_before_image(column: str, value: Any, row: Mapping[str, Any], position: Collection[str] = ()) -> bool:
    """True for the row before an update, which a capture writes beside the row after it, at the same place of its log.

    Words of a change feed count in any column, others only in that of their capture. Columns of the `position` say how
    fine such places are.
    """
    text = mark_text(value)
    if not text:
        return False
    words = vocabulary(column) or _COMMON
    places = _OF_ONE_UPDATE.get(stored_name(column).lower(), ())
    if (
        _word(text) in words.before
        or _word(text) in words.deletions
        and not set(places).isdisjoint(map(str.lower, position))
    ):
        return True
    of_update = _OF_UPDATES.get(stored_name(column).lower())
    if of_update is None or _word(text) not in of_update[0]:
        return False
    _, beside, is_first_half = of_update
    return any(is_first_half(value) for name, value in row.items() if stored_name(name).upper() == beside)
