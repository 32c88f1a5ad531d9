"""Stored transcripts and benchmarks are complete and hold no detail of the machine that made them."""

import re
from pathlib import Path

import pytest

from sluice_local.emulators.choose import Kind
from tools.deploy_walkthrough import heading

KEPT = sorted((Path(__file__).resolve().parents[3] / "docs" / "walkthroughs").glob("*.md"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_transcript_goes_from_a_clean_clone_to_the_data_that_is_left(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    steps = [
        *(
            "git clone",
            "make deploy",
            "sluice --stack sluice put",
            "settled in",
            "make deploy",
            " became ",
            "settled in",
        ),
        *("make delete", "There is no stack sluice", "rows read, as many as the source database had"),
    ]
    place = 0
    for step in steps:
        place = text.find(step, place) + 1
        assert place, f"{step} is missing, or comes too early"
    assert text.startswith(heading(file.stem)), "it says by which commit it was made"
    assert re.search(r"git log --oneline -1\n[0-9a-f]{7,} ", text)
    assert not re.search(r"/root|/home/|/tmp|/usr/|/opt/|127\.0\.0\.1|\blocalhost(?!\.localstack)", text)


@pytest.mark.parametrize(
    "file", sorted((KEPT[0].parents[1] / "evidence" / "benchmarks").glob("*.json")), ids=lambda file: file.stem
)
def test_a_kept_benchmark_names_no_folder_of_the_machine_that_made_it(file: Path) -> None:
    assert not re.search(r'"(/root|/home/|/tmp|/usr/|/opt/)', file.read_text(encoding="utf-8"))


def test_one_of_each_emulator_is_kept() -> None:
    assert [file.stem for file in KEPT] == sorted(Kind)
