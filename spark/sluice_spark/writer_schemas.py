"""Which writer schema each object of a part has, as understood by the core."""
from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from sluice.avro_schema import WriterSchema, fingerprint, read_writer_schema
from sluice.errors import SluiceError
from sluice.manifest import ManifestObject, ObjectError, schema_key
from sluice_aws.heads import read_header
from sluice_aws.objects import Objects


@dataclass(frozen=True)
class WriterSchemas:
    """The distinct schemas in the order in which their first objects were admitted, whose objects have which, and objects without one."""

    in_order: Tuple[WriterSchema, ...]
    of_object: Mapping[str, str]
    errors: Tuple[ObjectError, ...]


def writer_schemas(objects: Objects, silver_bucket: str, items: Sequence[ManifestObject]) -> WriterSchemas:
    """Look up every schema once: by the fingerprint that admission stored, else from the object's own head.

    An object whose schema can't be had or can't be stored is in `errors`; S3's passing troubles raise.
    """
    known: Dict[str, WriterSchema] = {}
    of_object: Dict[str, str] = {}
    errors: List[ObjectError] = []
    for item in sorted(items, key=lambda item: (item.admitted_at, item.offset or 0, item.id)):
        try:
            text = _stored(objects, silver_bucket, item.schema) if item.schema and item.schema not in known else None
            if item.schema in known:
                found = known[item.schema or ""]
            else:
                found = _understood(text if text is not None else json.dumps(read_header(objects, item.id).schema, sort_keys=True))
        except SluiceError as error:
            if error.retriable:
                raise
            errors.append(ObjectError(item.id.hash, error.code, str(error)))
            continue
        known.setdefault(found.fingerprint, found)
        of_object[item.id.hash] = found.fingerprint
    return WriterSchemas(tuple(known.values()), of_object, tuple(errors))


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
