"""Each fault of the table on the local stack: nothing is lost, nothing is there twice, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faulting.fault import Fault
from faulting.proxy import FaultProxy, fault_proxy
from faulting.strike import strike
from faulting.table import FAULTS
from judging.running_stack import RunningStack

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def proxy(stack: RunningStack) -> Iterator[FaultProxy]:
    assert stack.target.endpoint is not None
    with fault_proxy(stack.target.endpoint) as running:
        yield running


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault.name, marks=() if fault.sample else pytest.mark.whole) for fault in FAULTS]
)
def test_after_a_fault_every_table_equals_what_was_put(stack: RunningStack, proxy: FaultProxy, fault: Fault) -> None:
    struck = strike(fault, stack, proxy, hurried=True)
    print(struck)
    assert struck.verdict.clean, struck
