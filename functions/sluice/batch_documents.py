"""The JSON of what is kept of a batch: the same bytes for the same content, and refused where this release can't read it."""

from __future__ import annotations

import json
from typing import Any, Dict

from sluice.errors import SluiceError

FORMAT = 1  # of manifests and of outcomes


class UnreadableManifest(SluiceError):
    """A manifest or outcome that this release can't read; facts: `found`."""

    code = "unreadable_manifest"
    next_step = "Run the release that wrote it, or a newer one"


def document_of(text: str, what: str) -> Dict[str, Any]:
    """The content of what is said to be a manifest or an outcome (`what`, for the error). Raises UnreadableManifest for another format, and for what is none."""
    try:
        content = json.loads(text)
        found = content["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableManifest(f"This is no {what}: {error}", found=text[:200]) from error
    if found != FORMAT:
        raise UnreadableManifest(f"The {what} has format {found!r}, this release reads {FORMAT}", found=found)
    return content


def canonical_json(content: Any) -> str:
    """The same text for the same content: keys in order, no blanks, ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
