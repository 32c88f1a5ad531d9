"""The wait of `sluice config discover` for objects that were just put."""

from types import SimpleNamespace

import pytest

from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import ListedVersion, VersionPage
from sluice_cli.config.discover import ADMISSION_PATIENCE_S, RECENT_MS, wait_for_admission


class Put:
    """A bucket with objects of some ages (ms), of which the ledger knows more at each look, and a clock."""

    def __init__(self, ages, *looks):
        self.keys, self.ages, self.looks = [str(number) for number in range(len(ages))], ages, list(looks)
        self.asked, self.shown, self.seconds = [], [], 0.0

    def is_versioned(self, bucket):
        return True

    def version_page(self, bucket, marker=None, *, prefix="", page_size=1000):
        now = epoch_ms()
        listed = zip(self.keys, self.ages, strict=True)
        return VersionPage(tuple(ListedVersion(bucket, key, "v", "e", 1, now - age) for key, age in listed), None)

    def get(self, ids):
        self.asked.append([identity.key for identity in ids])
        admitted = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {identity: object() for identity in ids if identity.key in admitted}

    def sleep(self, seconds):
        self.seconds += seconds

    def wait(self):
        ledger = SimpleNamespace(objects=SimpleNamespace(get=self.get))
        how = {"show": self.shown.append, "clock": lambda: self.seconds, "sleep": self.sleep}
        return wait_for_admission(self, "bronze", ledger, **how)


def test_it_ends_when_the_ledger_knows_all_and_asks_only_for_what_is_left():
    put = Put([0, 0, 0], "0", "01", "012")
    assert (put.wait(), put.shown) == (0, [2, 1])
    assert put.asked == [["0", "1", "2"], ["1", "2"], ["2"]]


def test_what_no_notice_announced_ends_it_once_nothing_more_is_admitted():
    put = Put([0, 0], "0")
    assert put.wait() == 1
    assert put.seconds == pytest.approx(ADMISSION_PATIENCE_S, abs=1)


def test_older_objects_and_an_empty_bucket_cost_no_wait():
    for put in (Put([RECENT_MS + 1_000], ""), Put([], "")):
        assert (put.wait(), put.asked, put.seconds) == (0, [], 0.0)
