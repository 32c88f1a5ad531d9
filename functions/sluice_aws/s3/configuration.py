"""Loads the pushed configuration from the artifact bucket, by one conditional GET."""

from __future__ import annotations

from typing import Any, Callable

from sluice.config.document import Configuration
from sluice.errors import InvalidConfiguration
from sluice_aws.errors import ConfigurationMissing, ConfigurationUnreadable, Unchanged
from sluice_aws.ledger.history import HistoryLedger
from sluice_aws.s3.objects import Objects

CONFIGURATION_KEY = "config/tables.json"
HISTORY_PREFIX = "config/history/"  # every pushed configuration, by version
PUSHES = "configurations_pushed"  # the ledger's counter
MAX_CONFIGURATION_BYTES = 4 * 1024 * 1024


class ConfigStore:
    """Reads the configuration; keeps the last one with its ETag."""

    def __init__(
        self, objects: Objects, bucket: str, key: str = CONFIGURATION_KEY, *, history: HistoryLedger | None = None
    ) -> None:
        """A `history`, which counts pushes, shows that an empty artifact bucket once had a configuration."""
        self._objects = objects
        self._bucket = bucket
        self._key = key
        self._pushes: Callable[[], int] = (lambda: 0) if history is None else (lambda: history.counter(PUSHES))
        self._etag: str | None = None
        self._read: str | None = None
        self._loaded: Configuration | None = None

    def load(self) -> Configuration | None:
        """The configuration in force, by one conditional GET. None when none was ever pushed.

        Raises ConfigurationUnreadable, and ConfigurationMissing when a pushed one is gone. `last` stays unchanged then.
        """
        try:
            document = self._objects.get(self._bucket, self._key, unless=self._etag)
        except Unchanged:
            return self._loaded
        if document is None:
            if self._was_pushed():
                raise ConfigurationMissing(
                    f"s3://{self._bucket}/{self._key} is gone, though a configuration was pushed"
                )
            return None
        self._read = document.etag
        self._loaded = self._parse(document.data)
        self._etag = document.etag
        return self._loaded

    def replace(self, data: bytes) -> bool:
        """Put a configuration in force where the one that was read last, readable or not, still is; False elsewhere."""
        return self._objects.put_if(self._bucket, self._key, data, replaces=self._read, content_type="application/json")

    def load_if_changed(self) -> Configuration | None:
        """The configuration if it changed since the last read, else None."""
        before = self._etag
        now = self.load()
        return now if self._etag != before else None

    def load_or_last(self, report: Any) -> Configuration | None:
        """The configuration, or the last readable one while the new one is invalid, which is reported.

        For work that must go on: an invalid file must not block the lane of a dead run.
        """
        try:
            return self.load()
        except ConfigurationUnreadable as error:
            report.warn("configuration_unreadable", reason=str(error))
            report.count("ConfigurationUnreadable")
            return self._loaded

    @property
    def last(self) -> Configuration | None:
        """The last one read: it stays in force while a newer one is invalid."""
        return self._loaded

    def earlier(self, pushes: int) -> Configuration | None:
        """The configuration before so many pushes that changed it, by the times in the history; None for no such one.

        One that came back counts by its last push alone. Where the one in force is lost, it is the first of these.
        """
        try:
            current = self.load()
        except ConfigurationUnreadable:
            current = None
        listed = sorted(self._objects.documents(self._bucket, HISTORY_PREFIX), key=lambda entry: -entry.put_at)
        keys = [entry.key for entry in listed if current is None or not entry.key.endswith(f"/{current.version}.json")]
        document = self._objects.get(self._bucket, keys[pushes - 1]) if len(keys) >= pushes else None
        return None if document is None else self._parse(document.data)

    def _was_pushed(self) -> bool:
        """By this process, the ledger, or the history in S3: each can be lost without the others."""
        return (
            self._loaded is not None
            or self._pushes() > 0
            or any(True for _ in self._objects.keys(self._bucket, HISTORY_PREFIX))
        )

    def _parse(self, data: bytes) -> Configuration:
        where = f"s3://{self._bucket}/{self._key}"
        if len(data) > MAX_CONFIGURATION_BYTES:
            raise ConfigurationUnreadable(f"{where} is longer than a configuration can be", bytes=len(data))
        try:
            return Configuration.from_json(data.decode("utf-8"))
        except (InvalidConfiguration, UnicodeDecodeError) as error:
            raise ConfigurationUnreadable(
                f"{where} is not a configuration: {error}", cause=type(error).__name__
            ) from error
