"""The sweep keeps pace with the ledger: a round takes about a week, however many records there are."""

from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from sluice_aws.admission.sweep import ROUND_MS, Sweeper, SweepRound

EVERY_MS = 15 * 60_000
DAY_MS = 86_400_000


class Ledger:
    """A ledger of so many pages without a record that is due, and the checkpoint of its sweep."""

    def __init__(self, pages):
        self.pages, self.stored, self.asked = pages, None, 0
        self.history = SimpleNamespace(checkpoint=lambda name: self.stored, put_checkpoint=self._put)

    def page(self, after):
        self.asked += 1
        number = int((after or {"pk": "0"})["pk"]) + 1
        return [], ({"pk": str(number)} if number < self.pages else None)

    def _put(self, at, now, name):
        self.stored = at


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def sweeper(ledger, clock):
    return Sweeper(
        ledger=ledger, scan=ledger, objects=None, report=None, bucket="b", grace_ms=0, forget_after_ms=0, now=clock
    )


def rounds(ledger, days, clock, *, most_pages=1_000, grows=0):
    """How long each round took (ms) while reconcile is called for so many days; `grows` pages a day."""
    began, took = clock.now, []
    for call in range(days * DAY_MS // EVERY_MS):
        sweeper(ledger, clock).run(partial(next, count(60.0, -60 / most_pages)))
        if ledger.stored["after"] is None:
            took.append(clock.now - began)
            began = clock.now
        clock.now += EVERY_MS
        if call % (DAY_MS // EVERY_MS) == 0:
            ledger.pages += grows
    return took


@pytest.mark.parametrize("pages", [1, 3, 700, 5_000])
@pytest.mark.long
def test_a_round_takes_no_longer_than_a_week(pages):
    clock = Clock()
    took = rounds(Ledger(pages), 30, clock)
    assert took and max(took) <= ROUND_MS + EVERY_MS


@pytest.mark.long
def test_a_large_ledger_is_not_looked_at_more_often_than_needed():
    ledger = Ledger(5_000)
    rounds(ledger, 28, Clock())
    assert ledger.asked <= 5_000 * 6  # one round of unknown length, then one a week


@pytest.mark.long
def test_a_ledger_that_grows_is_still_looked_at_to_its_end():
    took = rounds(Ledger(200), 60, Clock(), grows=100)
    assert len(took) >= 5 and max(took) <= 2 * ROUND_MS


def test_an_invocation_stops_when_its_time_is_over_and_goes_on_there():
    ledger, clock = Ledger(100), Clock()
    left = iter([200.0, 190.0, 170.0, 139.0])
    sweeper(ledger, clock).run(partial(next, left))
    assert (ledger.asked, ledger.stored["after"], ledger.stored["pages"]) == (3, {"pk": "3"}, 3)


@pytest.mark.parametrize("stored", [None, {}, {"pk": "object#b/k", "sk": "v"}], ids=["none", "empty", "older"])
def test_a_checkpoint_of_an_earlier_release_begins_a_new_round(stored):
    assert SweepRound.from_dict(stored, 7) == SweepRound(7)
