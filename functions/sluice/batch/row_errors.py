"""Keeps the records of an object that can't be merged, each with its bytes, as JSON lines beside the batch."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sluice.batch.manifest import canonical_json
from sluice.batch.outcome import RowErrorCount, in_words
from sluice.errors import SluiceError, UnreadableManifest

MAX_CONTENT_BYTES = 16 * 1024  # of one record; a longer one is cut, and its full length kept
MAX_REASON = 1_000  # characters
JSON_TEXT, BASE64 = "json", "base64"  # encodings of `content`: decoded fields, or bytes that can't be decoded


@dataclass(frozen=True)
class RowError:
    """A record that can't be merged.

    `record` is its number in the object, from 0. `offset` is its Kafka offset and `position` its stored position, each
    None if unknown. `content` is the record in the form that `encoding` names, `content_bytes` its uncut length.
    """

    record: int
    code: str
    reason: str
    offset: int | None
    position: str | None
    encoding: str
    content: str
    content_bytes: int


def row_error(record: int, error: SluiceError, value: Any, *, offset: int | None, position: str | None) -> RowError:
    """Make the error of a record. `value` is the decoded record, or the bytes of one that can't be decoded."""
    summary = in_words(error, leave_out=("record",))
    if isinstance(value, (bytes, bytearray)):
        content = base64.b64encode(bytes(value[: MAX_CONTENT_BYTES * 3 // 4])).decode("ascii")
        written = BASE64, content, len(value)
    else:
        text = json.dumps(_plain(value), ensure_ascii=True, separators=(",", ":"))
        written = JSON_TEXT, text[:MAX_CONTENT_BYTES], len(text)
    return RowError(record, error.code, summary[:MAX_REASON], offset, position, *written)


def _plain(value: Any) -> Any:
    """A decoded value as JSON without loss: bytes as `{"base64": …}`, numbers that JSON lacks as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return str(value)


def counted(object_hash: str, rows: Iterable[RowError]) -> RowErrorCount:
    codes: dict[str, int] = dict(Counter(row.code for row in rows))
    return RowErrorCount(object_hash, sum(codes.values()), codes)


def to_lines(rows: Iterable[RowError]) -> str:
    """The rows of one object as JSON lines, in the order of the records."""
    return "".join(canonical_json(asdict(row)) + "\n" for row in sorted(rows, key=lambda row: row.record))


def from_lines(text: str) -> Iterator[RowError]:
    """Read the result of `to_lines`. Raises UnreadableManifest for anything else."""
    for line in text.splitlines():
        try:
            yield RowError(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise UnreadableManifest("A quarantined row can't be read", found=line[:200]) from error
