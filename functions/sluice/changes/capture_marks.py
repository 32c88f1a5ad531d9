"""The columns in which captures other than Debezium say what a change does to its row, and the words that they write.

Names are compared as a table stores them, in any case. Each vocabulary is that of the product's documentation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        """All of them."""
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
_COMMON_COLUMNS = frozenset(
    "op _op __op op_type optype operation _operation operation_type _operation_type change_type "
    "change_operation _cdc_operation cdc_op _cdc_op dml_type row_kind _row_kind rowkind _meta_op "
    "ticdc_meta_operation metadata_action __crdb__event_type _metadata_change_type ibmsnap_operation "
    "sys_change_operation dmltype__ hoodie_operation dtl__capxaction infa_operation_type talend_cdc_type jrn_flag "
    "versions_operation ar_h_operation ziw_status_flag".split()
)
# SAP's replication flows, ODP and SLT, and IBM's InfoSphere write letters more: deletions of keys alone, and images of
# an update. In other columns they may be data. https://userapps.support.sap.com/sap/support/knowledge/en/3427972
_LETTERS = Vocabulary(_COMMON.deletions | {"x"}, _COMMON.before | {"b"}, _COMMON.others | {"a"})
# Delta, Iceberg and Materialize (mz_diff) compare two states of a table: of one key, what went comes before what came.
_DIFFERENCES = Vocabulary(_COMMON.deletions, _COMMON.before | {"delete"}, _COMMON.others)
_LETTER_COLUMNS = frozenset(
    "change_type operation_type __operation_type odq_changemode iuuc_operation _1dh_operation dm_operation_type".split()
)
_QLIK_END = "change_oper"  # behind a prefix of the task's own, header__ by default
_QLIK = _words("d", "b", "i u", "D")
_NUMBERED: Mapping[str, Vocabulary] = {
    "___operation": _words("1", "3", "2 4 5", "1"),  # SQL Server's __$operation
    "hvr_op": _words("0 8 10", "3 4", "1 2 5 11 12 22 32 42 52", "0"),
    "_peerdb_record_type": _words("2", "", "0 1", "2"),
    "cdc_operation": Vocabulary(  # ScyllaDB's numbers, or others' words
        _COMMON.deletions | set("345678"), _COMMON.before | {"0"}, _COMMON.others | set("129")
    ),
    "_eventtype": _words(
        "deleted delete", "", "created updated undeleted create update undelete", "deleted"
    ),  # Salesforce
    "event_type": _words("delete", "update_before", "insert update_after", "delete"),  # MariaDB's MaxScale
    "sdc_operation_type": _words("2", "", "1 3 4 5 6 7 8", "2"),  # StreamSets
    "_change_type": _DIFFERENCES,
    "mz_diff": _words("-1", "-1", "1", "-1"),
    "_sign": _words("-1", "", "1", "-1"),  # ClickHouse
    "dml_action": _words("delete", "before", "insert after update", "DELETE"),  # Dynamics 365
    "type": _words(  # SingleStore's OBSERVE
        "delete", "", "insert update beginsnapshot commitsnapshot begintransaction committransaction", "Delete"
    ),
    "diff_type": _words("removed", "", "added modified", "removed"),  # Dolt
    "operation_": Vocabulary(frozenset(("d", "d ")), frozenset(("uo", "uu")), frozenset(("i", "i ", "un"))),  # Oracle
    **dict.fromkeys(
        ("a_enttyp", "_enttyp"), _words("dl dr", "ub br", "pt px up ur rr cr", "DL")
    ),  # IBM's journal entries
}
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
    "isdelete": ("true", "1"),  # Azure Synapse Link for Dataverse
    "deleted_ts": (),  # dlt
}
# Names that others have, too, and the column beside them that tells the capture.
_BESIDE: Mapping[str, str] = {"deleted_ts": "_dlt_load_id", "isdelete": "sinkmodifiedon", "type": "internalid"}
# Where a deletion that this other column marks as well is the first half of an update.
_OF_UPDATES: Mapping[str, str] = {"metadata_action": "METADATA_ISUPDATE"}  # Snowflake's streams


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


def vocabulary(column: str) -> Vocabulary | None:
    """The words of a column of operations; None for a column of another name."""
    name = stored_name(column).lower()
    if name.endswith(_QLIK_END):
        return _QLIK
    if name in _LETTER_COLUMNS:
        return _LETTERS
    return _COMMON if name in _COMMON_COLUMNS else _NUMBERED.get(name)


def is_flag(column: str) -> bool:
    """True for the column by which a capture flags deleted rows."""
    return stored_name(column).lower() in _FLAGS


def marking_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns that captures mark deletions in."""
    stored = {name: stored_name(name).lower() for name in names}
    marking = (name for name in stored if vocabulary(name) is not None or is_flag(name))
    return tuple(name for name in marking if _BESIDE.get(stored[name], stored[name]) in stored.values())


def deletion_marks(column: str, values: Collection[Any]) -> tuple[str, ...] | None:
    """The values of a capture's column that mark deletions, as a rule would name them; none: any value but null.

    None for a column of another name or of other words, so that it holds data. A column of operations has at least one
    of them.
    """
    texts = {mark_text(value) for value in values if value is not None}
    flag = _FLAGS.get(stored_name(column).lower())
    if flag is not None:
        return tuple(sorted(text for text in texts if text and text.lower() in flag)) or flag
    return _operations_marking(vocabulary(column), texts)


def common_operations_marking(texts: Collection[str | None]) -> tuple[str, ...] | None:
    """`deletion_marks` of a column that is one of operations by other evidence than its name."""
    return _operations_marking(_COMMON, texts)


def _operations_marking(words: Vocabulary | None, texts: Collection[str | None]) -> tuple[str, ...] | None:
    """The deletions among operations, or what one would be called; None where they aren't all of the vocabulary."""
    listed = [text for text in texts if text is not None]
    if (
        words is None
        or len(listed) < len(texts)
        or not listed
        or any(text.lower() not in words.words for text in listed)
    ):
        return None
    deletions = tuple(sorted(text for text in listed if text.lower() in words.deletions))
    return deletions or (_in_the_form_of(listed) if words in (_COMMON, _LETTERS, _DIFFERENCES) else words.deletion,)


def _in_the_form_of(operations: Sequence[str]) -> str:
    """What a deletion is called beside these operations."""
    one = max(operations, key=len)
    mark = "-D" if one[0] in "+-" else "DELETE" if len(one) > 1 else "D"
    return mark if one.upper() == one else mark.lower()


def other_deletions(column: str, texts: Iterable[str | None], values: Collection[str]) -> tuple[str, ...]:
    """The deletions of a capture's column that a rule doesn't name among its `values`."""
    words = vocabulary(column)
    deletions = frozenset() if words is None else words.deletions
    return tuple(sorted(text for text in texts if text and text.lower() in deletions and text not in values))


def is_before_image(column: str, value: Any, row: Mapping[str, Any]) -> bool:
    """True for the row before an update, which a capture writes beside the row after it, at the same place of its log.

    Words of a change feed count in any column, others only in that of their capture.
    """
    text = mark_text(value)
    if not text:
        return False
    words = vocabulary(column) or _COMMON
    if text.lower() in words.before:
        return True
    of_update = _OF_UPDATES.get(stored_name(column).lower())
    if of_update is None or text.lower() not in words.deletions:
        return False
    return any(
        stored_name(name).upper() == of_update and mark_text(flag) in ("true", "True", "TRUE")
        for name, flag in row.items()
    )
