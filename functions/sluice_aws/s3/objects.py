"""Reads and writes S3 objects: untrusted ones by exact version, Sluice's own documents, and listings of versions.

Reports skip and name a document that can't be read (`SkippedDocuments`). Spark tasks share one client per
worker process (`task_objects`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Optional, TypeVar

from botocore.exceptions import ClientError

from sluice.admission.routing import identities
from sluice.config.document import Configuration
from sluice.errors import SluiceError
from sluice.objects import ObjectId, identify
from sluice_aws.errors import ObjectArchived, ObjectGone, Unchanged, facts_of, too_large
from sluice_aws.failures import code_of
from sluice_formats.avro_header import Head

# Answers of S3 when the version in a notice is gone. 405 is a delete marker read by its version.
GONE = {"NoSuchKey", "NoSuchVersion", "PreconditionFailed", "MethodNotAllowed", "404", "405", "412"}
MISSING = {"NoSuchKey", "404"}
REFUSED = {"AccessDenied", "403", "400"}  # to whom asks, or without the customer's own key
OLDER_VERSIONS, MOST_OF_A_SECOND = 20, 999  # listed at once, and counted
# S3 Glacier Flexible Retrieval and Deep Archive, and Intelligent-Tiering's archive tiers.
ARCHIVED = {"InvalidObjectState"}
_ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")
COLD = frozenset((*_ARCHIVES, "INTELLIGENT_TIERING"))  # storage classes whose objects may be archived
EMPTY = {"InvalidRange", "416"}
# Answers to a conditional write: the condition doesn't hold, another write was faster, or the object is gone.
CHANGED = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey", "404"}


TAIL_PART_BYTES = 1024 * 1024
MAX_REASON = 200  # characters of why a document is skipped; it may quote the document

T = TypeVar("T")


@dataclass(frozen=True)
class ListedVersion:
    """One entry of a version listing. `modified_at` in epoch milliseconds."""

    bucket: str
    key: str
    version_id: str
    etag: str
    size: int
    modified_at: int
    storage_class: str = "STANDARD"

    def id(self, versioned: bool) -> ObjectId:
        """Its identity, as a notice gives it; `versioned` says whether the bucket does. Raises UnidentifiedObject."""
        return identify(self.bucket, self.key, self.version_id, self.etag, bucket_versioned=versioned)


@dataclass(frozen=True)
class VersionPage:
    """Up to 1,000 entries of a listing, and the marker of the next page (None: this is the last)."""

    versions: tuple[ListedVersion, ...]
    next_marker: tuple[str, str] | None


@dataclass(frozen=True)
class ListedDocument:
    """One of Sluice's own objects in a listing. `put_at` in epoch ms, of whole seconds."""

    key: str
    size: int
    put_at: int


@dataclass(frozen=True)
class Document:
    """A small object of Sluice's own, with its ETag."""

    data: bytes
    etag: str


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


# Reads exactly this version, of at most so many bytes; the function does the same by boto3.
WholeReader = Callable[[ObjectId, Optional[int], Callable[[], bytes]], bytes]


class Objects:
    """S3 through one client. Errors of botocore pass unless a method names another; a retry may help."""

    def __init__(self, s3: Any, whole: WholeReader | None = None) -> None:
        """`whole` reads whole objects, for a process that reads many (`SignedGets`)."""
        self._s3 = s3
        self._read_whole = whole

    def head_bytes(self, id: ObjectId, limit: int) -> Head:
        """Read at most `limit` bytes from the start of exactly this version, in one call.

        Reading stops at the limit: a server may answer a range with the whole object. Raises ObjectGone when the
        version is gone, and ObjectArchived.
        """
        return self._part(id, f"bytes=0-{limit - 1}", lambda body: bytes(body.read(limit)))

    def tail_bytes(self, id: ObjectId, limit: int) -> Head:
        """Read at most `limit` bytes from the end of exactly this version, in one call.

        If a server answers with the whole object, it is read to its end, holding only the last bytes. Raises
        ObjectGone, ObjectArchived.
        """

        def last(body: Any) -> bytes:
            data = b""
            while part := body.read(TAIL_PART_BYTES):
                data = (data + part)[-limit:]
            return data

        return self._part(id, f"bytes=-{limit}", last)

    def range_bytes(self, id: ObjectId, start: int, length: int) -> bytes:
        """At most `length` bytes of exactly this version, from `start` on, in one call, where `has_ranges`.

        Raises ObjectGone, ObjectArchived.
        """
        return self._part(id, f"bytes={start}-{start + length - 1}", lambda body: bytes(body.read(length))).data

    def has_ranges(self, id: ObjectId) -> bool:
        """Whether the server gives a part of this version where one is asked for. Not all emulators do."""
        answer = self._opened(id, Range="bytes=0-0")
        answer["Body"].close()
        return "ContentRange" in answer

    def chunks(self, id: ObjectId) -> Iterator[bytes]:
        """All bytes of exactly this version, in one call, TAIL_PART_BYTES at a time.

        Raises ObjectGone, ObjectArchived.
        """
        with closing(self._opened(id)["Body"]) as body:
            while chunk := body.read(TAIL_PART_BYTES):
                yield chunk

    def _part(self, id: ObjectId, range_: str, read: Callable[[Any], bytes]) -> Head:
        try:
            answer = self._s3.get_object(Range=range_, **_exactly(id))
        except ClientError as error:
            if code_of(error) in EMPTY:  # an empty object has no range
                return Head(b"", True)
            _refuse_unreadable(id, error)
            raise
        with closing(answer["Body"]) as body:
            data = read(body)
        return Head(data, _total(answer) <= len(data))

    def whole(self, id: ObjectId, limit: int | None = None) -> bytes:
        """All bytes of exactly this version, in one call.

        Raises ObjectGone when the version is gone, ObjectArchived, and ObjectTooLarge, before reading, for more than
        `limit` bytes.
        """
        if self._read_whole is None:
            return self._whole(id, limit)
        return self._read_whole(id, limit, lambda: self._whole(id, limit))

    def _whole(self, id: ObjectId, limit: int | None) -> bytes:
        answer = self._opened(id)
        size = int(answer["ContentLength"])
        if limit is not None and size > limit:
            answer["Body"].close()
            raise too_large(size, limit)
        return bytes(answer["Body"].read())

    def _opened(self, id: ObjectId, **how: str) -> dict[str, Any]:
        try:
            return dict(self._s3.get_object(**_exactly(id), **how))
        except ClientError as error:
            _refuse_unreadable(id, error)
            raise

    def exists(self, id: ObjectId) -> bool:
        """Whether exactly this version is still there, in one call."""
        return self._head(id) is not None

    def is_archived(self, id: ObjectId) -> bool:
        """Whether exactly this version is archived and not restored, in one call; False when it is gone."""
        answer = self._head(id) or {}
        restored = 'ongoing-request="false"' in answer.get("Restore", "")
        return "ArchiveStatus" in answer or answer.get("StorageClass") in _ARCHIVES and not restored

    def modified_at(self, id: ObjectId) -> int | None:
        """When exactly this version was written (epoch ms, of whole seconds), in one call; None when it is gone."""
        answer = self._head(id)
        return None if answer is None else int(answer["LastModified"].timestamp() * 1000)

    def _head(self, id: ObjectId) -> dict[str, Any] | None:
        """S3's answer about exactly this version; None when it is gone."""
        try:
            return dict(self._s3.head_object(**_exactly(id)))
        except ClientError as error:
            if code_of(error) in GONE:
                return None
            raise

    def arrival(self, id: ObjectId) -> int | None:
        """When exactly this version was written (epoch ms), so that versions of one key have different times.

        S3 has whole seconds. Versions of a key that have the same second are a millisecond apart, in the order of their
        listing. Two calls for a version, one for an ETag. None when it is gone, or may not be read.
        """
        try:
            at = self.modified_at(id)
        except ClientError as error:
            if code_of(error) in REFUSED:  # whoever reads it says why
                return None
            raise
        if at is None or id.version_id is None:
            return at
        older = 0
        marker: tuple[str, str] | None = (id.key, id.version_id)
        while marker is not None and older < MOST_OF_A_SECOND:
            page = self.version_page(id.bucket, marker, prefix=id.key, page_size=OLDER_VERSIONS)
            same = [version.key == id.key and version.modified_at // 1000 == at // 1000 for version in page.versions]
            older += sum(same)
            marker = page.next_marker if all(same) else None
        return at + min(older, MOST_OF_A_SECOND)

    def get(self, bucket: str, key: str, *, unless: str | None = None, limit: int | None = None) -> Document | None:
        """Read a small object of Sluice's own, or at most `limit` bytes from its start. None when there is none.

        With `unless`, an ETag, raises Unchanged if the object still has that ETag.
        """
        condition: dict[str, str] = {"IfNoneMatch": unless} if unless else {}
        try:
            answer = self._s3.get_object(Bucket=bucket, Key=key, **condition)
        except ClientError as error:
            if code_of(error) in MISSING:
                return None
            if code_of(error) in ("304", "NotModified"):
                raise Unchanged("The object has not changed", bucket=bucket, key=key) from None
            raise
        with closing(answer["Body"]) as body:
            return Document(body.read(limit), answer["ETag"])

    def data_file(self, bucket: str, key: str) -> bytes:
        """All bytes of a file of a table, in one call; files are written once and never change."""
        return bytes(self._s3.get_object(Bucket=bucket, Key=key)["Body"].read())

    def data_range(self, bucket: str, key: str, start: int, length: int) -> bytes:
        """`length` bytes of a file of a table, from `start` on."""
        range_ = f"bytes={start}-{start + length - 1}"
        return bytes(self._s3.get_object(Bucket=bucket, Key=key, Range=range_)["Body"].read())

    def get_json(self, bucket: str, key: str) -> Any:
        """The JSON document under a key, or None when there is no such object."""
        document = self.get(bucket, key)
        return None if document is None else json.loads(document.data)

    def put(self, bucket: str, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object, if there is one."""
        self._s3.delete_object(Bucket=bucket, Key=key)

    def put_if(self, bucket: str, key: str, data: bytes, *, replaces: str | None, content_type: str) -> bool:
        """Write an object if there is none yet, or if it still has the ETag `replaces`. False where that isn't so.

        A put whose answer was lost is sent again by boto3, and is refused then, since it is there.
        """
        condition = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}
        try:
            self._s3.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type, **condition)
        except ClientError as error:
            if code_of(error) not in CHANGED:
                raise
            stored = self.get(bucket, key)
            return stored is not None and stored.data == data
        return True

    def put_json(self, bucket: str, key: str, document: Any) -> None:
        """Write a document as JSON, keys in order, so that equal documents are equal bytes."""
        text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        self.put(bucket, key, text.encode("utf-8"), content_type="application/json")

    def keys(self, bucket: str, prefix: str) -> Iterator[str]:
        """Every key below a prefix, in the order of their UTF-8 bytes."""
        for document in self.documents(bucket, prefix):
            yield document.key

    def documents(
        self, bucket: str, prefix: str, after: str = "", *, in_folder: bool = False
    ) -> Iterator[ListedDocument]:
        """Every object below a prefix, in the order of their keys' UTF-8 bytes; with `after`, those behind that key.

        `in_folder`: without those in folders below the prefix, which ends with a slash.
        """
        start = {"StartAfter": after} if after else {}
        start |= {"Delimiter": "/"} if in_folder else {}
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **start):
            for entry in page.get("Contents", ()):
                yield ListedDocument(entry["Key"], entry["Size"], int(entry["LastModified"].timestamp() * 1000))

    def version_page(
        self, bucket: str, marker: tuple[str, str] | None = None, *, prefix: str = "", page_size: int = 1000
    ) -> VersionPage:
        """One page of object versions after `marker` (key, version id); delete markers are left out."""
        resume = (
            {} if marker is None else {"KeyMarker": marker[0], **({"VersionIdMarker": marker[1]} if marker[1] else {})}
        )
        answer = self._s3.list_object_versions(Bucket=bucket, Prefix=prefix, MaxKeys=page_size, **resume)
        versions = tuple(
            ListedVersion(
                bucket=bucket,
                key=entry["Key"],
                version_id=entry["VersionId"],
                etag=entry["ETag"].strip('"'),
                size=entry["Size"],
                modified_at=int(entry["LastModified"].timestamp() * 1000),
                storage_class=entry.get("StorageClass", "STANDARD"),
            )
            for entry in answer.get("Versions", ())
        )
        following = (
            (answer["NextKeyMarker"], answer.get("NextVersionIdMarker", "")) if answer.get("IsTruncated") else None
        )
        return VersionPage(versions, following)

    def ask_time(self, bucket: str) -> str:
        """What time it is by S3: the header `Date` of an answer, of whole seconds."""
        return str(self._s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]["date"])

    def is_versioned(self, bucket: str) -> bool:
        """Whether the bucket keeps versions, or ever did: only then have notices a versionId."""
        return bool(self._s3.get_bucket_versioning(Bucket=bucket).get("Status"))


def files_beside(objects: Objects, id: ObjectId, prefix: str) -> dict[ObjectId, int]:
    """The objects below a prefix of an object's bucket and their times (epoch ms), of each key the current version.

    The object tells whether the bucket keeps versions: the job may not ask.
    """
    current = {item.key for item in objects.documents(id.bucket, prefix)}
    newest: dict[str, tuple[ObjectId, int]] = {}
    for page in pages_of_bronze(objects, id.bucket, prefix, versioned=id.version_id is not None):
        for own, item in page.items():
            if item.key in current:
                newest.setdefault(item.key, (own, item.modified_at))  # the newest version comes first
    return dict(newest.values())


def pages_of_bronze(
    objects: Objects,
    bucket: str,
    prefix: str = "",
    *,
    versioned: bool | None = None,
    configuration: Configuration | None = None,
) -> Iterator[dict[ObjectId, ListedVersion]]:
    """List every object version below a prefix, a page at a time; with a configuration, once for each table.

    Asks whether the bucket is `versioned`, if None.
    """
    versioned = objects.is_versioned(bucket) if versioned is None else versioned
    marker = None
    while True:
        page = objects.version_page(bucket, marker, prefix=prefix)
        yield {
            identity: item
            for item in page.versions
            for identity in identities(item.id(versioned), item.size, configuration)
        }
        marker = page.next_marker
        if marker is None:
            return


def _refuse_unreadable(id: ObjectId, error: ClientError) -> None:
    """Raises ObjectGone and ObjectArchived. Returns for errors that may pass, or concern more than this version."""
    if code_of(error) in GONE:
        raise ObjectGone("The object was gone before it could be read", **facts_of(id)) from error
    if code_of(error) in ARCHIVED:
        kept_as = error.response["Error"].get("StorageClass")
        raise ObjectArchived("The object is in an archive tier", **facts_of(id), storage_class=kept_as) from error


def _exactly(id: ObjectId) -> dict[str, str]:
    """Parameters that select one version: by its id, or by ETag where the bucket keeps no versions."""
    which = {"VersionId": id.version_id} if id.version_id else {"IfMatch": f'"{id.etag}"'}
    return {"Bucket": id.bucket, "Key": id.key, **which}


def _total(answer: dict[str, Any]) -> int:
    """The object's size: the number after the slash in Content-Range, or the length of the answer."""
    _, slash, total = answer.get("ContentRange", "").rpartition("/")
    return int(total) if slash and total.isdigit() else int(answer["ContentLength"])


READ_AHEAD_OBJECTS = 8  # requests of one task in flight


@dataclass(frozen=True)
class ObjectSource:
    """What a task needs to reach S3. Pickled into tasks; credentials come from the task's own environment.

    `endpoint_url` is an emulator's address, None on AWS. Tasks write quarantined rows into `silver_bucket`.
    """

    region: str
    silver_bucket: str
    endpoint_url: str | None = None


@lru_cache(maxsize=4)
def task_objects(source: ObjectSource) -> Objects:
    """S3 for this process. Spark reuses workers, and making a client takes as long as reading ten objects."""
    # Loads boto3, which a command's help needs none of.
    from sluice_aws.clients import TASK, Clients
    from sluice_aws.s3.signed_get import SignedGets

    clients = Clients(region=source.region, endpoint_url=source.endpoint_url, options=TASK)
    return Objects(clients.s3, SignedGets(clients.s3, clients.session).whole)
