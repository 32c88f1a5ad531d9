"""Which writer schemas each object of a part has, as understood by the core."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from sluice.avro_schema import WriterSchema, fingerprint, read_writer_schema
from sluice.errors import SluiceError
from sluice.json_inference import agreed
from sluice.manifest import ManifestObject
from sluice.outcome import ObjectError
from sluice.routing import JSON
from sluice.silver_keys import schema_key
from sluice_aws.heads import read_head
from sluice_aws.objects import Objects
from sluice_aws.schema_store import SchemaStore
from sluice_spark.schema_scan import Scanned

Scan = Callable[[Sequence[ManifestObject]], Scanned]


@dataclass(frozen=True)
class WriterSchemas:
    """The distinct schemas in the order in which their first objects were admitted, whose objects have which, and objects without one.

    `inferred` has the schemas of records that carry none, by the object's hash, as JSON: a read task must be told.
    """

    in_order: Tuple[WriterSchema, ...]
    of_object: Mapping[str, Tuple[str, ...]]
    errors: Tuple[ObjectError, ...]
    inferred: Mapping[str, str] = field(default_factory=dict)


def writer_schemas(
    objects: Objects,
    silver_bucket: str,
    items: Sequence[ManifestObject],
    *,
    scan: Scan,
    stored: Optional[Mapping[str, str]] = None,
) -> WriterSchemas:
    """Look up every schema once: by the fingerprint that admission stored, else from the object's own head.

    JSON objects are read by `scan`: their records may carry several schemas, or none. `stored` are the
    types (Spark's names) of the table's columns. An object whose schema can't be had or can't be stored is in `errors`;
    S3's passing troubles raise.
    """
    known: Dict[str, WriterSchema] = {}
    of_object: Dict[str, Tuple[str, ...]] = {}
    errors: List[ObjectError] = []
    in_order = sorted(items, key=lambda item: (item.admitted_at, item.offset or 0, item.id))
    texts, inferred = _by_scan(
        objects, silver_bucket, [item for item in in_order if item.format == JSON], scan, stored or {}, errors
    )
    refused = {error.object for error in errors}
    for item in in_order:
        if item.id.hash in refused:
            continue
        try:
            if item.format == JSON:
                found = [_understood(text) for text in texts[item.id.hash]]
            elif item.schema in known:
                found = [known[item.schema or ""]]
            else:
                text = _stored(objects, silver_bucket, item.schema) if item.schema else None
                found = [
                    _understood(
                        text
                        if text is not None
                        else json.dumps(read_head(objects, item.id, item.format).schema, sort_keys=True)
                    )
                ]
        except SluiceError as error:
            if error.retriable:
                raise
            errors.append(ObjectError(item.id.hash, error.code, str(error)))
            continue
        for writer in found:
            known.setdefault(writer.fingerprint, writer)
        of_object[item.id.hash] = tuple(writer.fingerprint for writer in found)
    return WriterSchemas(tuple(known.values()), of_object, tuple(errors), inferred)


def _by_scan(
    objects: Objects,
    silver_bucket: str,
    items: Sequence[ManifestObject],
    scan: Scan,
    stored: Mapping[str, str],
    errors: List[ObjectError],
) -> Tuple[Dict[str, List[str]], Dict[str, str]]:
    """The schemas of JSON objects as JSON, by the object's hash: all of them, and those that had to be inferred."""
    if not items:
        return {}, {}
    scanned = scan(items)
    errors.extend(scanned.errors)
    marks = list(scanned.schemas)
    guessed = [mark for mark in marks if mark in scanned.inferred]
    # One text per schema, shared: what is pickled into tasks holds it once, however many objects have it.
    texts = {mark: json.dumps(schema, sort_keys=True) for mark, schema in scanned.schemas.items()}
    texts.update(
        zip(
            guessed,
            (
                json.dumps(schema, sort_keys=True)
                for schema in agreed([scanned.schemas[mark] for mark in guessed], stored)
            ),
        )
    )
    store = SchemaStore(objects, silver_bucket)
    for item in items:
        for mark in scanned.of_object.get(item.id.hash, ()):
            if mark not in scanned.inferred and mark != item.schema:
                store.keep(scanned.schemas[mark])  # a schema that the object's head didn't tell yet
    of_object = {hash: [texts[mark] for mark in own] for hash, own in scanned.of_object.items()}
    return of_object, {hash: texts[own[0]] for hash, own in scanned.of_object.items() if own[0] in scanned.inferred}


def _stored(objects: Objects, silver_bucket: str, named: Optional[str]) -> Optional[str]:
    """The schema's JSON as admission put it; None where it isn't there, or isn't what its name says."""
    document = objects.get(silver_bucket, schema_key(named or ""))
    if document is None:
        return None
    text = document.data.decode("utf-8")
    return text if fingerprint(json.loads(text)) == named else None


@lru_cache(maxsize=512)
def _understood(schema: str) -> WriterSchema:
    return read_writer_schema(json.loads(schema))
