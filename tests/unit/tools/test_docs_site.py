"""The site's links: pages of docs/, pages outside it, files that are no page, and nothing."""

import re
from pathlib import Path

import pytest

from sluice_cli.verbs import VERBS
from tools.docs_site import _LINK, PAGES, commands_page, rewritten

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("source", "page", "link", "expected"),
    [
        ("README.md", "index.md", "[limits](docs/limits.md#sizes)", "[limits](limits.md#sizes)"),
        ("README.md", "index.md", "[decisions](docs/decisions)", "[decisions](decisions/index.md)"),
        ("docs/decisions/driver.md", "decisions/driver.md", "[a](../evidence/aws.md)", "[a](../evidence/aws.md)"),
        ("docs/security.md", "security.md", "[policy](../CHANGELOG.md)", "[policy](changelog.md)"),
        ("docs/producing.md", "producing.md", "[a test](../tests/conftest.py)", "a test"),
        ("docs/producing.md", "producing.md", "[here](#debezium)", "[here](#debezium)"),
        ("docs/producing.md", "producing.md", "[gone](gone.md)", "[gone](gone.md)"),
    ],
)
def test_a_link_leads_to_the_sites_page_or_stays_for_the_strict_build(source, page, link, expected):
    assert _LINK.sub(lambda link_match: rewritten(link_match, source, page), link) == expected


def test_the_reference_has_each_verb_with_its_options():
    written = commands_page()
    assert {name for name in VERBS if f"\n### sluice {name}\n" not in written} == set()
    assert "\nExit codes: 0 success, 1 failure" in written
    assert "| `--as-of MOMENT` |" in written and "### sluice table ddl" in written


def test_every_page_has_its_place_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r": ([a-z/-]+\.md)$", navigation, re.M))
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in (*docs.glob("*.md"), *docs.glob("evidence/*.md"))}
    pages |= set(PAGES.values()) | {"cli.md"}
    assert pages - listed == set()
