"""The files of a job, fetched into its directory."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from sluice_deploy.release import tar_gz_bytes
from sluice_local.emr.submission import read_submission
from sluice_local.emr.work_directory import Fetcher

JOB = {
    "jobDriver": {
        "sparkSubmit": {
            "entryPoint": "s3://artifacts/job.py",
            "sparkSubmitParameters": "--archives s3://artifacts/environment.tar.gz#environment",
        }
    }
}


class Artifacts:
    """Stands in for boto3's client of S3: one script and one archive."""

    class exceptions:  # noqa: N801 - boto3's name
        ClientError = OSError

    def head_object(self, **_: str) -> dict[str, str]:
        return {"ETag": '"1"'}

    def download_file(self, _bucket: str, key: str, target: str) -> None:
        Path(target).write_bytes(b"" if key == "job.py" else tar_gz_bytes({"carried.py": b"WORD = 1"}))


def test_an_archive_is_unpacked_where_python_has_no_extraction_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Python 3.11.2, that of Debian 12."""
    unpack = tarfile.TarFile.extractall

    def without_filter(tar: Any, path: Any = ".", members: Any = None, *, numeric_owner: bool = False) -> None:
        unpack(tar, path, members, numeric_owner=numeric_owner)

    monkeypatch.setattr(tarfile.TarFile, "extractall", without_filter)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    directory = tmp_path / "job"
    directory.mkdir()
    (tmp_path / "unpacked").mkdir()
    Fetcher(Artifacts(), tmp_path / "unpacked").fetch(read_submission(JOB), directory)
    assert (directory / "environment" / "carried.py").read_bytes() == b"WORD = 1"
