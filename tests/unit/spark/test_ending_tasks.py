"""The end of a table's tasks, as the scheduler of Spark tells of them, and what one leaves to the next."""

import importlib
import sys
import zipfile
import zipimport
from types import SimpleNamespace

import pytest

from sluice_spark.engine.tasks import end_tasks, forget_archives
from sluice_spark.errors import TasksLeft


class Scheduler:
    """A pool that reports these numbers of running tasks, one a look, the last one for ever."""

    def __init__(self, *running):
        self.running = list(running)
        self.cancelled = []
        self.spark = SimpleNamespace(
            sparkContext=SimpleNamespace(
                cancelJobGroup=self.cancelled.append,
                _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getPoolForName=self.pool)),
            )
        )

    def pool(self, name):
        tasks = self.running.pop(0) if len(self.running) > 1 else self.running[0]
        return SimpleNamespace(
            isDefined=lambda: tasks is not None, get=lambda: SimpleNamespace(runningTasks=lambda: tasks)
        )


class Seconds:
    def __init__(self):
        self.now = 0.0

    def wait(self, seconds):
        self.now += seconds

    def monotonic(self):
        return self.now


@pytest.mark.parametrize("running", [(None,), (0,), (2, 1, 0)], ids=["never ran", "ended", "ends"])
def test_a_tables_jobs_are_cancelled_and_its_tasks_waited_for(running):
    scheduler, seconds = Scheduler(*running), Seconds()
    end_tasks(scheduler.spark, "crm.user", wait=seconds.wait, monotonic=seconds.monotonic)
    assert scheduler.cancelled == ["crm.user"] and seconds.now == pytest.approx(0.1 * (len(running) - 1))


def test_tasks_that_do_not_end_put_the_roll_back_off():
    scheduler, seconds = Scheduler(1), Seconds()
    with pytest.raises(TasksLeft, match="1 tasks") as left:
        end_tasks(scheduler.spark, "crm.user", longest_s=3, wait=seconds.wait, monotonic=seconds.monotonic)
    assert left.value.retriable and seconds.now >= 3


def test_a_task_begins_without_reading_archives_and_imports_from_them(monkeypatch, tmp_path):
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for name in ("archived/__init__.py", "archived/first.py", "archived/second.py"):
            written.writestr(name, f"NAME = {name!r}")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("archived.first")
    read = []
    directory = zipimport._read_directory
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or directory(path))
    forget_archives()
    importlib.invalidate_caches()
    assert not read
    assert importlib.import_module("archived.second").NAME == "archived/second.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "archived"]:
        del sys.modules[name]
    forget_archives()
