"""What `sluice put` copies of a folder, and what it leaves out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.errors import CommandFailed, UsageError
from sluice_cli.ingest.put import Copies, Upload, names_without_rule, planned_copies, upload_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file to copy, a stack's folder without a dot, hidden ones, and links."""
    root = tmp_path / "in"
    for name in ("topics/t/a.avro", "stack/up.log", ".git/config", "topics/.venv/b.avro", ".env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"1")
    (root / "inner").symlink_to("topics/t/a.avro")
    (root / "outer").symlink_to(tmp_path / "outside" / "secret")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "nothing").symlink_to("gone")
    os.mkfifo(root / "pipe")
    return root


def planned(folder: Path, *paths: str) -> Copies:
    return planned_copies(paths, "", stack_folder=folder / "stack")


def test_only_visible_files_inside_a_folder_are_copied_and_the_others_are_named(folder: Path) -> None:
    copies = planned(folder, str(folder))
    assert [upload.key for upload in copies.uploads] == ["inner", "topics/t/a.avro"]
    assert {Path(item.path).relative_to(folder).as_posix(): item.reason for item in copies.left_out} == {
        ".env": "hidden",
        ".git": "hidden",
        "folder": "a link to a folder",
        "nothing": "not a file, or gone",
        "outer": "a link that leads out of the folder",
        "pipe": "not a file, or gone",
        "stack": "the local stack's own folder",
        "topics/.venv": "hidden",
    }


def test_the_folder_that_one_is_in_is_copied_by_its_name_alone(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    assert [upload.key for upload in planned(folder, ".").uploads] == ["inner", "topics/t/a.avro"]
    with pytest.raises(UsageError, match=" is no file or folder"):
        planned(folder, "topics", "")


def test_a_hidden_file_or_folder_is_copied_where_it_is_named(folder: Path) -> None:
    copies = planned(folder, str(folder / ".env"), str(folder / ".git"), str(folder / "outer"))
    assert [upload.key for upload in copies.uploads] == [".env", "config", "outer"]


def test_a_file_that_vanishes_before_it_is_copied_is_reported_in_one_line(folder: Path) -> None:
    copies = planned(folder, str(folder / "topics"))
    (folder / "topics" / "t" / "a.avro").unlink()
    with pytest.raises(CommandFailed, match="a.avro can't be read: No such file"):
        upload_all(None, "bronze", copies.uploads)


def test_names_that_no_rule_takes_are_named_with_the_reason() -> None:
    configuration = Configuration(rules=(TableRule("crm.user", ("id",), topic="crm.public.user"),))
    keys = ("topics/crm.public.user/crm.public.user+0+1.avro", "topics/t/t+0+1.avro", "notes.txt", "a/_SUCCESS")
    uploads = [Upload(Path(key), key, 1) for key in keys]
    by_key = {item.key: item.reason for item in names_without_rule(uploads, configuration)}
    assert set(by_key) == {"topics/t/t+0+1.avro", "notes.txt"}, "a file that is ignored waits for no rule"
    assert "no rule of tables.yaml takes this topic" in by_key["topics/t/t+0+1.avro"]
    assert "extension" in by_key["notes.txt"]
    assert len(names_without_rule(uploads, None)) == 3
    empty = [Upload(Path("a"), "topics/t/t+0+2.avro", 0)]
    assert not names_without_rule(empty, configuration), "an empty object is quarantined"


def test_an_interrupted_put_says_how_many_objects_went(tmp_path: Path, capsys: Any) -> None:
    class S3:
        def put_object(self, Key: str, **_: Any) -> dict[str, str]:
            if Key == "b":
                raise KeyboardInterrupt
            return {}

    for name in "ab":
        (tmp_path / name).write_bytes(b"1")
    with pytest.raises(KeyboardInterrupt):
        upload_all(S3(), "bronze", tuple(Upload(tmp_path / name, name, 1) for name in "ab"))
    assert "1 of 2 objects copied" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["in/nothing", "in/pipe", "/dev/zero", "in/absent", "-", "s3://bucket/x"])
def test_a_path_that_is_no_file_is_refused_without_being_opened(folder: Path, path: str) -> None:
    with pytest.raises(UsageError, match=f"{path} is no file or folder of this machine"):
        planned(folder, path if path in ("-", "s3://bucket/x") else str(folder.parent / path))
