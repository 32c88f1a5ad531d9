"""docs/evidence/benchmarks.md agrees with the raw results beside it, and admit's benchmark counts what it claims to."""

import pytest

from sluice_bench.document import DOCUMENT, KEPT, take, text
from sluice_bench.pipeline import admit


def test_the_document_is_made_of_the_raw_results():
    assert DOCUMENT.read_text(encoding="utf-8") == text(), "run `python -m sluice_bench.document`"


def test_caveats_precede_numbers_and_name_what_was_not_measured():
    whole = text()
    for section in whole.split("\n## ")[1:]:
        assert "Not kept yet" in section or 0 < section.index("\n- ") < section.index("\n|")
    assert whole.index("not figures of AWS") < whole.index("\n## ")


def test_the_newest_result_of_each_benchmark_is_taken(tmp_path):
    for name in ("admit-20260101T000000Z", "admit-20260102T000000Z", "other-20260103T000000Z"):
        (tmp_path / f"{name}.json").write_text(name)
    assert [file.name for file in take(tmp_path, tmp_path / "kept")] == ["admit.json"]
    assert (tmp_path / "kept" / "admit.json").read_text() == "admit-20260102T000000Z"


def test_an_object_is_admitted_by_three_calls():
    measured = admit.run("fake", 40)
    calls = measured["calls"]
    assert calls["GetObject"] - 1 == calls["Query"] == calls["TransactWriteItems"] == 40
    assert measured["calls_per_object"] == pytest.approx(3, abs=0.06)
    assert KEPT.is_dir()
