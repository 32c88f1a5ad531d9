"""What the tutorial names is there: its bundled objects, the object it traces, the table it queries."""

import re

from support.documented_commands import ROOT, shown_commands

from sluice_deploy.release import source_root

TUTORIAL = "docs/tutorial.md"
TEXT = (ROOT / TUTORIAL).read_text(encoding="utf-8")


def bundled():
    (folder,) = re.findall(r"^    data=.*\)/([a-z_/]+)\"$", TEXT, re.M)
    return source_root() / folder


def commands():
    return [shown.words for shown in shown_commands() if shown.document == TUTORIAL and shown.program == "sluice"]


def test_the_bundled_objects_are_where_the_tutorial_finds_them():
    assert bundled().is_dir() and any(bundled().rglob("*.avro"))


def test_the_traced_object_is_one_of_the_bundled():
    (key,) = [words[1] for words in commands() if words[0] == "trace"]
    assert len(list(bundled().rglob(key))) == 1


def test_the_queried_table_is_what_discover_makes_of_a_topic():
    (table,) = [re.search(r"from (\S+)", words[1])[1] for words in commands() if words[0] == "query"]
    topics = {path.name for path in (bundled() / "topics").iterdir()}
    assert table in {topic.split(".", 1)[1] for topic in topics}


def test_the_rules_that_are_pushed_are_the_ones_that_were_written():
    written = {words[words.index("--file") + 1] for words in commands() if words[:2] == ("config", "discover")}
    pushed = {words[-1] for words in commands() if "push" in words}
    assert written == pushed == {"mine.yaml"}
