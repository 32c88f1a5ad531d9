"""The error that ends a run at once: another run holds the lane."""

from __future__ import annotations

from sluice.errors import SluiceError


class LaneLost(SluiceError):
    """This job run no longer holds its lane: it stops without another write, and the holder takes over."""

    code = "lane_lost"
    next_step = "Nothing to do: the run that holds the lane takes over"
