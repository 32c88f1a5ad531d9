"""THIRD_PARTY_NOTICES.md names what is installed, with the licenses that the packages give."""

from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tools.notices import FILE, license_of, notices

ROOT = Path(__file__).resolve().parents[2]


def test_the_notices_are_what_is_installed():
    assert (ROOT / FILE).read_text(encoding="utf-8") == notices(ROOT), "run `make notices`"


@pytest.mark.parametrize(
    ("metadata", "license"),
    [
        ("License-Expression: MIT OR Apache-2.0\n", "MIT OR Apache-2.0"),
        ("License: BSD\n", "BSD"),
        (
            "License: Copyright (c) somebody, who says very much about what may be done with it\n"
            "Classifier: License :: OSI Approved :: MIT License\n",
            "MIT",
        ),
        (
            "Classifier: License :: OSI Approved\n"
            "Classifier: License :: OSI Approved :: GNU General Public License v2 (GPLv2)\n",
            "GNU General Public License v2 (GPLv2)",
        ),
        ("", "see the package"),
    ],
)
def test_a_license_is_what_the_package_says_of_itself(tmp_path, metadata, license):
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.1\nName: x\nVersion: 1\n{metadata}")
    assert license_of(PathDistribution(tmp_path)) == license
