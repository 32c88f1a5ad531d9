"""Errors of building a release."""

from __future__ import annotations

from sluice.errors import CommandFailed


class NoSources(CommandFailed):
    """The command isn't installed from a clone; facts: `root`."""

    code = "no_sources"
    next_step = "Run it from a clone, installed with `pip install --editable .`"


class WheelsUnavailable(CommandFailed):
    """pip could not get a wheel; facts: `output`."""

    code = "wheels_unavailable"
    retriable = True
    next_step = "Check that pip reaches its package index"


class ReleaseDiffers(CommandFailed):
    """A file of the release exists with another content; facts: `bucket`, `key`."""

    code = "release_differs"
    next_step = "Find out who wrote it, remove the release's folder, and run the command again"


class NotCompiled(CommandFailed):
    """A Python could not compile the sources of an archive; facts: `output`."""

    code = "not_compiled"
    next_step = "Correct the source that the message names, or name another Python of the runtime's version"
