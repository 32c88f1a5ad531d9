"""The package index doesn't have Sluice yet: one page says so, and nothing shows a way to install it that fails."""

import json
import re
import subprocess
import sys

import pytest
from support.documented_commands import ROOT

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


# Runs verbs as after `pip install ./sluice`, without extras, on a stack where nothing answers.
WITHOUT_READ = """
import json, sys
from sluice_cli.main import run
from sluice_cli.terminal.run import PARTS
for name in PARTS:
    sys.modules[name] = None
for words in json.loads(sys.argv[1]):
    print("verb", *words, file=sys.stderr)
    run(words)
for module in sys.argv[2:]:
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        print("module", module, file=sys.stderr)
"""
ARGUMENTS = {"config discover": [], "query": ["select 1"], "diff": ["a.b", "--from", "1h"], "row": ["a.b", "1"]}
# Verbs that ask the stack before they load the module that needs the extra.
LOADED_LATER = {
    "config push": "sluice_cli.config.waiting",
    "config plan": "sluice_cli.config.waiting",
    "forget": "sluice_cli.trace.row_changes",
}


def verbs_of_read():
    """The verbs of the row, each with its group: `config push`, `plan` are two of `config`."""
    (row,) = re.findall(r"^\| `read` \| (.*) \|$", text(PAGE), re.M)
    for part in row.split(";"):
        group = ""
        for verb in re.findall(r"`(?:sluice )?([a-z ]+)`", part):
            group = verb.rpartition(" ")[0] or group
            yield f"{group} {verb.rpartition(' ')[2]}".strip()


@pytest.mark.long
def test_every_verb_that_needs_the_extra_read_is_said_to(tmp_path):
    (tmp_path / "tables.yaml").write_text("tables: [{topic: a.b, table: a.b, record_key: id}]")
    stack = {
        "stack": "s", "region": "us-east-1", "endpoint": "http://127.0.0.1:9", "ledger": "l",
        "buckets": {"bronze": "b", "silver": "s", "artifacts": "a"},
        "credentials": {"access_key_id": "test", "secret_access_key": "test"}
    }  # fmt: skip
    (tmp_path / "local.json").write_text(json.dumps(stack))
    verbs = list(verbs_of_read())
    assert {"config push", "config discover", "query", "forget", "table stats"} <= set(verbs)
    words = [[*verb.split(), *ARGUMENTS.get(verb, ["a.b"])] for verb in verbs if verb not in LOADED_LATER]
    modules = sorted(set(LOADED_LATER.values()))
    command = [sys.executable, "-c", WITHOUT_READ, json.dumps(words), *modules]
    env = {"SLUICE_HOME": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=env)
    said, *missing = done.stderr.split("module ")
    assert [name.strip() for name in missing] == modules
    parts = said.split("verb ")[1:]
    assert [part for part in parts if "of the extra `read`" not in part] == []
    assert len(parts) == len(words)


@pytest.mark.parametrize("name", [name for name in SHOWN if "config push" in text(name)])
def test_who_installs_and_pushes_installs_the_extra_read(name):
    for block in re.findall(r"(?:^    .*\n)+", text(name), re.M):
        installed = re.findall(r"pip install (?!aws)\S+", block)
        if installed and "config push" in block:
            assert [line for line in installed if "[read]" not in line and "[local]" not in line] == [], block
