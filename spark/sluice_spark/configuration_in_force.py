"""The configuration that batches are made by: reloaded between batches, and kept when the new one is broken."""

from __future__ import annotations

from typing import Optional

from sluice.configuration import Configuration
from sluice.errors import SluiceError
from sluice.execution_policy import scope_of

from sluice_spark.ports import Configurations, Log
from sluice_spark.run_log import describe


class ConfigurationInForce:
    """The last configuration that could be read. A table's own copy is pinned in each manifest."""

    def __init__(self, source: Configurations, log: Log, *, lane: str = "", scope: str = "") -> None:
        """`scope` names what the run's policy lets it write, see `sluice.execution_policy`; empty: everything."""
        self._source = source
        self._lane = lane
        self._scope = scope
        self._outgrown = False
        self._log = log
        self._current = Configuration()  # takes no topic: nothing is claimable until a file could be read
        self._reported: Optional[str] = None

    @property
    def current(self) -> Configuration:
        """What the next batch is made by, unless `refresh` finds another."""
        return self._current

    @property
    def outgrown(self) -> bool:
        """Whether there is a newer configuration under which the lane has tables that this run may not write, or has lost some: the run has to end."""
        return self._outgrown

    def refresh(self) -> Configuration:
        """Take over a changed file. A broken or vanished one changes nothing and is reported once.

        Errors that aren't about the file (no connection, no permission) are raised.
        """
        try:
            changed = self._source.load_if_changed()
        except SluiceError as error:
            self._report(describe(error), error)
            return self._current
        if changed is not None:
            self._outgrown = bool(self._scope) and scope_of(changed, self._lane).name != self._scope
            if self._outgrown:
                self._log.event("configuration_outgrown", version=changed.version, in_force=self._current.version)
                return self._current
        if changed is not None and changed.version != self._current.version:
            self._log.event("configuration", version=changed.version, before=self._current.version)
            self._current = changed
        self._reported = None
        return self._current

    def _report(self, told: str, error: SluiceError) -> None:
        if told != self._reported:
            self._reported = told
            self._log.failure("configuration_broken", error, in_force=self._current.version)
