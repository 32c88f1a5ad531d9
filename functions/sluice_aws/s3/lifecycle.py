"""Lifecycle rules of a bucket of tables that take files away which a table still needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

_ARCHIVED = frozenset(("GLACIER", "DEEP_ARCHIVE"))  # S3 reads neither without a restore


@dataclass(frozen=True)
class ExpiringRule:
    """A rule by its id: `effect` says what it does, `which` to which objects."""

    name: str
    effect: str
    which: str


def expiring(s3: Any, bucket: str) -> Iterator[ExpiringRule]:
    """The enabled rules that delete or archive present objects of a bucket, by age or date."""
    try:
        rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", ())
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "NoSuchLifecycleConfiguration":
            raise
        return
    for rule in rules:
        effect = _effect(rule)
        if rule.get("Status") == "Enabled" and effect is not None:
            yield ExpiringRule(str(rule.get("ID", "")), effect, _which(rule))


def _effect(rule: Mapping[str, Any]) -> str | None:
    """What a rule does to the present version of an object; None where it leaves that alone."""
    expiration = rule.get("Expiration", {})
    if "Days" in expiration or "Date" in expiration:
        return f"deletes{_when(expiration)}"
    archived = [transition for transition in rule.get("Transitions", ()) if transition.get("StorageClass") in _ARCHIVED]
    return f"archives{_when(archived[0])}" if archived else None


def _when(action: Mapping[str, Any]) -> str:
    return f" after {action['Days']} days" if "Days" in action else f" on {action.get('Date', '')}"


def _which(rule: Mapping[str, Any]) -> str:
    """The objects that a rule is about; a filter may join a prefix with tags and sizes."""
    filter_ = rule.get("Filter") or rule
    inner = filter_.get("And", filter_)
    prefix = str(inner.get("Prefix") or "")
    some = any(name in inner for name in ("Tag", "Tags", "ObjectSizeGreaterThan", "ObjectSizeLessThan"))
    return f"{'some' if some else 'all'} objects{f' under {prefix}' if prefix else ''}"
