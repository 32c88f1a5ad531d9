"""A minute of the soak: twelve tables under random faults, and everything is there once."""

from __future__ import annotations

import pytest
from faulting.proxy import fault_proxy
from judging.running_stack import RunningStack
from soaking.soak import Soak

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1500)]


def test_after_a_minute_of_faults_every_row_is_there_once(stack: RunningStack) -> None:
    assert stack.target.endpoint is not None
    with fault_proxy(stack.target.endpoint) as proxy:
        report = Soak(stack, proxy, 1, print).run(60, 15)
    assert report["faults"] and report["commits"]
    assert report["clean"], report
