"""S3 under a prefix: what merging writes beside its tables goes into a trial's own folder."""

from __future__ import annotations

from typing import Any, Iterator, Optional

from sluice_aws.objects import Document, Objects


class ScratchObjects(Objects):
    """Documents of ours under a prefix that whoever asks doesn't see. Objects that are named by version are where they are said to be."""

    def __init__(self, s3: Any, prefix: str) -> None:
        """`prefix` ends with a slash."""
        super().__init__(s3)
        self._prefix = prefix

    def get(self, bucket: str, key: str, *, unless: Optional[str] = None) -> Optional[Document]:
        """As Objects.get."""
        return super().get(bucket, self._prefix + key, unless=unless)

    def put(self, bucket: str, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """As Objects.put."""
        super().put(bucket, self._prefix + key, data, content_type=content_type)

    def keys(self, bucket: str, prefix: str) -> Iterator[str]:
        """As Objects.keys; what is listed can be asked for."""
        return (key[len(self._prefix) :] for key in super().keys(bucket, self._prefix + prefix))
