"""The package index doesn't have Sluice yet: one page says so, and nothing shows a way to install it that fails."""

import re

import pytest
from documented_commands import ROOT

PAGE, SECTION = "docs/deploying.md", "install-the-command"
SHOWN = ["README.md", "CHANGELOG.md", "deploy/deploy.mk"] + sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")
)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_page_says_that_it_is_not_on_the_package_index_yet():
    assert [name for name in SHOWN if "not on PyPI yet" in " ".join(text(name).split())] == [PAGE]
    assert "\n## Install the command\n" in text(PAGE)


@pytest.mark.parametrize("name", [name for name in SHOWN if "pip install" in text(name)])
def test_nothing_is_installed_by_a_name_that_the_index_does_not_have(name):
    """An extra of what is installed already is found without the index."""
    assert re.findall(r"(?:install|upgrade) (?:\S+ )*sluice-lakehouse(?!\[)", text(name)) == []
    commands = re.findall(r"^    .*\binstall .*sluice-lakehouse.*", text(name), re.M)
    assert commands == []


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/reading.md", "docs/serving.md"])
def test_who_installs_is_led_to_that_page(name):
    assert f"deploying.md#{SECTION}" in text(name)
