"""Every command in README and docs exists, with all options shown."""

import importlib
import re
from importlib.util import find_spec

import pytest
from support.documented_commands import ROOT, commands_in, documents, problem, shown_commands

COMMANDS = shown_commands()


def test_every_documented_sluice_command_exists_with_its_options():
    mistakes = [(shown.document, shown.text, problem(shown.words)) for shown in COMMANDS if shown.program == "sluice"]
    assert [line for line in mistakes if line[2]] == []
    assert len(mistakes) > 30


def test_every_documented_make_target_exists():
    files = (ROOT / "Makefile", ROOT / "deploy" / "deploy.mk")
    targets = {target for file in files for target in re.findall(r"^([a-z-]+):", file.read_text(), re.M)}
    of_make = [shown for shown in COMMANDS if shown.program == "make"]
    called = {(shown.document, word) for shown in of_make for word in shown.words if "=" not in word}
    assert sorted((document, word) for document, word in called if word not in targets) == []
    assert {"demo", "test", "deploy"} <= {word for _, word in called}


def test_every_documented_module_exists():
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    modules = {name for name in re.findall(r"python -m ([a-z_.]+)", text) if name.startswith("sluice")}
    assert "sluice_local.stack.sample_world" in modules
    assert {name for name in modules if not name.startswith("sluice_bench") and find_spec(name) is None} == set()


def exists(name):
    """Whether a dotted name is a module of the project or something in one."""
    module, _, last = name.rpartition(".")
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return hasattr(importlib.import_module(module), last) if find_spec(module) is not None else False


def test_every_documented_name_in_the_code_exists():
    """Properties of tables and files of a release, which the code names as texts, have names of this form too."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents() if "walkthroughs" not in path.parts)
    names = set(re.findall(r"`(sluice(?:_[a-z]+)?(?:\.\w+)+)`", text))
    modules = [path for part in ("functions", "spark", "deploy") for path in (ROOT / part).rglob("*.py")]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    assert len(names) > 20
    assert {name for name in names if f'"{name}"' not in sources and not exists(name)} == set()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("sluice wait --strict", None),
        ("sluice --stack s config push tables.yaml", None),
        ("sluice quarantine", None),
        ("sluice wiat", "no command wiat"),
        ("sluice wait --stric", "no option --stric"),
        ("sluice config push a b", "takes 1 arguments"),
        ("sluice quarantine lst", "no command lst"),
    ],
)
def test_the_check_accepts_a_right_and_refuses_a_wrong_command(line, wrong):
    (shown,) = commands_in(f"    {line}   # a comment\n", "x")
    mistake = problem(shown.words)
    assert mistake is None if wrong is None else wrong in mistake
