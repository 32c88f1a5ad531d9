"""What every verb prints on one stack, as text, as JSON and in a terminal, is as tests/data/pins has it.

`SLUICE_PINS=write` records it anew: the differences that git shows are then those that users see.
"""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from emulation.aws import EMULATOR_VARIABLE
from emulation.pinned_world import NOON, Clock, World, new_folder, other_services, pin_services
from emulation.stack import new_stack, restore_state, saved_state
from support.builders import to_a_terminal, unstyled

from sluice_cli.main import run
from sluice_cli.verbs import built

pytestmark = pytest.mark.skipif(
    os.environ.get(EMULATOR_VARIABLE) == "moto", reason="the state of another emulator is saved, with its ids"
)
PINS = Path(__file__).resolve().parents[2] / "data" / "pins"
WRITES = os.environ.get("SLUICE_PINS") == "write"
AS_TEXT, AS_JSON, IN_A_TERMINAL = ("", "", None), (" --json", " --json", None), (" in a terminal", "", 80)
#: How the lines of each part of the list are run: the end of their name, the end of the command, and columns.
VIEWS = (AS_TEXT, AS_JSON, IN_A_TERMINAL)
WAYS = {
    "views": VIEWS,
    "views that hide what they show": VIEWS,
    "views without a terminal": (AS_TEXT, AS_JSON),
    "others": (AS_TEXT, AS_JSON),
    "stories": (AS_TEXT,),
}
SHARE_A_STACK = ("views", "views without a terminal")

#: Verbs that are not pinned, or only in part, and why.
EXCEPTIONS = {
    "serve": "it serves until it is ended; tests/unit/cli/test_serve.py has its sentences",
    "demo": "it needs a local stack and Spark; tests/integration runs it",
    "local up": "it starts a local stack",
}


def cases():
    """The command lines, and the columns of the terminal that shows them, by the name of their file, by test.

    What only shows shares a stack with all that begins with the same word; what changes something has one of its own.
    """
    by_test, part, names = {}, "", set()
    for line in (PINS / "lines").read_text().splitlines():
        if line.startswith("["):
            part = line.strip("[]")
        elif line and not line.startswith("#"):
            for end, given, columns in WAYS[part]:
                name = name_of(line + end)
                assert name not in names, f"two command lines share a name: {line}"
                names.add(name)
                test = line.split()[0] if part in SHARE_A_STACK else name_of(line + end)
                by_test.setdefault(test, {})[name] = line + given, columns
    return by_test


def name_of(line):
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", line.replace("&&", "then")).strip("_")[:95]


CASES = cases()


def leaves(command, path=()):
    """The verbs of the command that have no verbs below them, as they are typed."""
    below = getattr(command, "commands", None)
    own = [" ".join(path)]
    return own if below is None else [leaf for name in below for leaf in leaves(below[name], (*path, name))]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """What the stack holds, which every case finds: the state of the emulator, and the ids that lines name."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("pins")
        clock, folder = Clock(), new_folder(home / "silver")
        clock.start_ids(1)
        clock.pin(patch)
        (home / "work").mkdir()
        with new_stack(patch, home / "work", anew=True) as stack:
            built_world = World(stack, clock, folder).build()
            clock.start_ids(1_000_000)
            other_services(stack, clock)
            return saved_state(), built_world.names(), folder


@pytest.fixture
def case(world, monkeypatch, tmp_path):
    """A folder with the files that lines name, on the stack as it was built."""
    saved, names, silver = world
    clock, folder = Clock(), tmp_path / "work"
    shutil.copytree(PINS / "inputs", folder)
    clock.pin(monkeypatch)
    with new_stack(monkeypatch, folder):
        restore_state(saved)
        pin_services(monkeypatch, silver)
        assert clock.ms == NOON
        yield clock, names, [(str(folder), "FOLDER"), (silver.as_uri(), "s3://s-silver"), (str(silver), "SILVER")]


def printed(line, texts, capsys):
    """A command, what it prints, and the files that it names and has written."""
    words = shlex.split(line)
    before = {word for word in words if Path(word).is_file()}
    capsys.readouterr()
    code = run(words)
    out, err = capsys.readouterr()
    parts = [("stdout", as_lines(out)), ("stderr", err)]
    parts += [(word, Path(word).read_text()) for word in words if word not in before and Path(word).is_file()]
    record = f"$ sluice {line}\nexit code {code}\n"
    for name, text in parts:
        shown = "\n".join(unstyled(text))
        record += f"--- {name}\n{shown}\n" if shown else ""
    for this, stands_for in texts:
        record = record.replace(this, stands_for)
    return record


def as_lines(text):
    """The text; of one JSON document in one line, with a line for each value."""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False) if text.startswith(("{", "[")) else text
    except ValueError:
        return text


@pytest.mark.parametrize("test", CASES)
def test_a_verb_prints_what_was_recorded(test, case, capsys):
    clock, names, texts = case
    records = {}
    for name, (line, columns) in CASES[test].items():
        clock.start_ids(2_000_000)
        with pytest.MonkeyPatch.context() as patch:
            if columns is not None:
                to_a_terminal(patch, columns)
            commands = line.format_map(names).split(" && ")
            records[name] = "\n".join(printed(command, texts, capsys) for command in commands)
        if WRITES:
            (PINS / f"{name}.txt").write_text(records[name])
    assert records == {name: (PINS / f"{name}.txt").read_text() for name in records}


def test_every_verb_is_pinned_or_an_exception_with_a_reason():
    verbs = set(leaves(built()))
    listed = [part for test in CASES.values() for line, _ in test.values() for part in line.split(" && ")]
    pinned = {verb for verb in verbs if any(f"{part} ".startswith(f"{verb} ") for part in listed)}
    assert verbs - pinned == set(EXCEPTIONS) and all(EXCEPTIONS.values())


def test_every_recorded_file_is_of_a_command_line():
    assert sorted(path.stem for path in PINS.glob("*.txt")) == sorted(name for test in CASES.values() for name in test)


def test_the_recorded_files_together_stay_small():
    assert sum(path.stat().st_size for path in PINS.rglob("*")) < 1_000_000
