"""A sample of the faults on the local stack: nothing is lost, nothing is there twice, and nothing is left.

`make faults` runs the whole table, as `make test-all` does. What one fault shows on the stack in a minute, `make test`
shows of each step: test_driver_dies.py, and of a write by Hudi spark/test_crash_points.py.
"""

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


@pytest.mark.whole
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.sample], ids=lambda fault: fault.name)
def test_after_a_fault_every_table_equals_what_was_put(stack: RunningStack, proxy: FaultProxy, fault: Fault) -> None:
    struck = strike(fault, stack, proxy, hurried=True)
    print(struck)
    assert struck.verdict.clean, struck
