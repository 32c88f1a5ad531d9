"""Admission takes bounded memory, whatever small objects claim to hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sluice_aws.admission.memory import Memory

pytestmark = pytest.mark.long

TESTS = Path(__file__).resolve().parents[2]
LIMIT_MB = 300  # of the 512 that reconcile has


BECOME = {
    "footers_of_structs": {"unsupported_parquet": 4},
    "schemas_of_values": {"schema_too_complex": 32},
    "long_names": {"schema_too_complex": 3},
    "fullest_schemas": {"pending": 8},
    "widest_footers": {"pending": 4},
    "compressed_json": {"pending": 8},
}
TAKES_SECONDS = ("widest_footers", "compressed_json")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.whole] if kind in TAKES_SECONDS else []) for kind in BECOME]
)
def test_objects_admitted_at_once_stay_within_a_limit_on_the_process(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TESTS / "support" / "hostile_objects.py"), kind, str(LIMIT_MB)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    content = json.loads(done.stdout)
    assert content["become"] == BECOME[kind]
    assert content["megabytes"] < LIMIT_MB


def test_a_share_waits_until_enough_is_free() -> None:
    memory, entered, waits = Memory(100), threading.Event(), threading.Event()

    def second() -> None:
        waits.set()
        with memory.share(60):
            entered.set()

    with memory.share(60):
        other = threading.Thread(target=second)
        other.start()
        waits.wait(10)
        assert not entered.wait(0.05)
    other.join(10)
    assert entered.is_set()


def test_threads_that_all_need_more_than_they_hold_come_to_an_end() -> None:
    memory, together, done = Memory(100), threading.Barrier(4), []

    def grows() -> None:
        with memory.share(25) as resize:
            together.wait(10)
            resize(90)
            done.append(1)

    threads = [threading.Thread(target=grows, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(done) == 4


def test_a_share_of_more_than_there_is_takes_all_and_gives_it_back() -> None:
    memory = Memory(100)
    for _ in range(2):
        with memory.share(1_000), pytest.raises(ZeroDivisionError), memory.share(0):
            1 / 0  # noqa: B018
    with memory.share(100):
        pass
