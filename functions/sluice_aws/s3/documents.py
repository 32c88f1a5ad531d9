"""Reads Sluice's own documents for reports: one that can't be read is skipped and named, and stops no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, TypeVar

from sluice.errors import SluiceError
from sluice_aws.s3.objects import Document

MAX_REASON = 200  # characters; it may quote the document

T = TypeVar("T")


@dataclass(frozen=True)
class SkippedDocument:
    """A document under `_sluice/` of the silver bucket that can't be read, and why."""

    key: str
    reason: str


class SkippedDocuments:
    """Parses documents and keeps the names of those that can't be read. Safe to use from several threads.

    The driver does without: it must not go on without a document that it needs.
    """

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def parsed(self, key: str, document: Document | None, parse: Callable[[str], T]) -> T | None:
        """The parsed document. None when there is none, and when it can't be read, which is noted.

        Raises the error of `parse` for a document of another release: its reader would leave a gap.
        """
        if document is None:
            return None
        try:
            return parse(document.data.decode("utf-8"))
        except UnicodeDecodeError:
            self.skip(key, "it is not text")
        except SluiceError as error:
            if isinstance(error.facts.get("found"), int):  # the number of its format
                raise
            self.skip(key, error.message)
        return None

    def skip(self, key: str, reason: str) -> None:
        """Note a document."""
        self._found[key] = reason[:MAX_REASON]

    @property
    def found(self) -> Sequence[SkippedDocument]:
        """The skipped documents, by key."""
        return tuple(SkippedDocument(key, self._found[key]) for key in sorted(self._found))
