"""Wheels are fetched once for each list, also by several processes at once."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice_deploy import wheels
from sluice_deploy.errors import WheelsUnavailable

HOST = wheels.Host("3.11", "x86_64")


@pytest.fixture
def requirements(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("botocore==1.40\n")
    return file


def test_another_process_that_fetches_the_same_wheels_is_not_in_the_way(requirements, tmp_path, monkeypatch):
    cache, fetches = tmp_path / "cache", []

    def pip(command, **how):
        fetches.append(command)
        if len(fetches) == 1:  # the other process begins later, and ends first
            wheels._wheels(requirements, HOST, cache)
        (Path(command[command.index("--dest") + 1]) / "botocore.whl").write_text("")
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(wheels.subprocess, "run", pip)
    folder = wheels._wheels(requirements, HOST, cache)
    assert [file.name for file in folder.iterdir()] == ["botocore.whl"] and len(fetches) == 2
    assert list(folder.parent.iterdir()) == [folder]
    assert wheels._wheels(requirements, HOST, cache) == folder and len(fetches) == 2


def test_wheels_that_were_not_fetched_leave_nothing_and_are_fetched_next_time(requirements, tmp_path, monkeypatch):
    monkeypatch.setattr(wheels.subprocess, "run", lambda command, **how: SimpleNamespace(returncode=1, stderr="no net"))
    for _ in range(2):
        with pytest.raises(WheelsUnavailable, match="no net"):
            wheels._wheels(requirements, HOST, tmp_path / "cache")
    assert list((tmp_path / "cache" / "wheels").iterdir()) == []
