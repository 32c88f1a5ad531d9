"""README names every verb, docs/configuration.md every key, and both name only tests and files that exist."""

import re
from pathlib import Path

import typer.main

from sluice_cli.config.model import Rule
from sluice_cli.verbs import app

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_every_key_of_a_rule_stands_in_the_table():
    rows = re.findall(r"^\| (`[^|]+) \|", CONFIGURATION, re.M)
    keys = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert set(Rule.model_fields) - keys == set()


def test_every_verb_is_named():
    shown = set(re.findall(r"`(?:sluice )?([a-z-]+)[ `]", README)) | set(re.findall(r"sluice ([a-z-]+)", README))
    assert set(typer.main.get_command(app).commands) - shown == set()


def test_every_path_and_link_leads_somewhere():
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    paths = re.findall(r"`((?:tests|docs|functions|spark|cli|local|bench|events)/[^` ]*)`", README)
    assert [name for name in (*links, *paths) if name and not (ROOT / name).exists()] == []
    assert len(links) > 5 and len(paths) > 8


def test_it_is_short_and_no_line_is_long():
    lines = README.splitlines()
    assert len(lines) <= 200 and max(map(len, lines)) <= 160


def test_every_page_is_linked():
    pages = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    reached, pending = set(), [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    while pending:
        page = pending.pop()
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            linked = [target] if target.is_file() else sorted(target.glob("*.md")) if target.is_dir() else []
            for path in linked:
                if path.is_relative_to(ROOT / "docs") and path.suffix == ".md" and path not in reached:
                    reached.add(path)
                    pending.append(path)
    assert {name for name, path in pages.items() if path not in reached} == set()


def test_diagrams_are_text_that_fits_the_site_on_a_laptop():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert [page.name for page in pages if "```mermaid" in page.read_text(encoding="utf-8")] == [], "it needs a network"
    for page in pages[:1] + [ROOT / "docs" / "architecture.md"]:
        diagram = page.read_text(encoding="utf-8").split("```")[1]
        assert max(map(len, diagram.splitlines())) <= 80, page.name
