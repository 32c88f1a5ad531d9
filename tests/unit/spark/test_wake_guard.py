"""A driver that stood still looks at its lane before its JVM goes on."""

import signal

import pytest

from sluice_spark.run.wake_guard import LONGEST_STOP_S, WakeGuard

PID = 4711


class Stood:
    """A driver whose waits take these seconds, one after the other, by a clock that doesn't stop with it."""

    def __init__(self, *waits, held=True, pid=PID):
        self.now, self.waits, self.signals, self.exits, self.events = 0.0, list(waits), [], [], []
        self.held, self.pid, self.jvm_before_look = held, pid, None
        self.guard = WakeGuard(
            self.still_held,
            lambda: self.pid,
            self,
            kill=lambda pid, number: self.signals.append((pid, number)),
            exit=self.exits.append,
            monotonic=lambda: self.now,
        )

    def still_held(self):
        self.jvm_before_look = list(self.signals)
        if isinstance(self.held, Exception):
            raise self.held
        return self.held

    def event(self, name, /, **fields):
        self.events.append(name)

    def failure(self, name, error, /, **fields):
        self.events.append(name)

    def wait(self, seconds):
        if not self.waits:
            return True
        self.now += self.waits.pop(0)
        return False

    def watched(self):
        self.guard.watch(self.wait)
        return self


def test_a_driver_that_goes_on_at_its_pace_is_left_alone():
    driver = Stood(0.25, LONGEST_STOP_S, 0.25).watched()
    assert (driver.signals, driver.exits, driver.jvm_before_look) == ([], [], None)


def test_a_driver_that_stood_still_and_holds_its_lane_goes_on():
    driver = Stood(0.25, 120.0, 0.25).watched()
    assert driver.jvm_before_look == [(PID, signal.SIGSTOP)]
    assert (driver.signals[1:], driver.exits) == ([(PID, signal.SIGCONT)], [])


@pytest.mark.parametrize("held", [False, ConnectionError("unreachable")], ids=["replaced", "unknown"])
def test_a_driver_that_was_replaced_ends_without_its_jvm_going_on(held):
    driver = Stood(0.25, 120.0, held=held).watched()
    assert [number for _, number in driver.signals] == [signal.SIGSTOP, signal.SIGKILL] and driver.exits == [3]


def test_a_driver_without_spark_yet_ends_alone():
    driver = Stood(120.0, held=False, pid=None).watched()
    assert (driver.signals, driver.exits) == ([], [3])
