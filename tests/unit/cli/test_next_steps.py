"""Next steps are decided in `sluice_cli.account`: no other module spells a command of `sluice` in its texts."""

import ast
import re

import pytest
from support.source_trees import ROOT, nodes_of

from sluice_cli.terminal.options import named_stack
from sluice_cli.terminal.step import Step, completed, in_a_row
from sluice_cli.verbs import built

FOLDER = ROOT / "cli" / "sluice_cli"
#: How many texts of a module spell a command, and why. A module is taken out as its last one goes; none is added.
SPELLED = {
    "config/rule_text.py": 1,  # of a file that is written
    "errors.py": 5,  # of classes; `completed` adds the stack
    "local/demo.py": 5,  # the commands that README has
    "local/init.py": 1,  # of a file that is written
    "verbs.py": 2,  # help
}


def texts(nodes):
    """The texts of a module but its docstrings and the help of options."""
    left_out = set()
    for node in nodes:
        if isinstance(node, ast.Expr):
            left_out.add(node.value)
        elif isinstance(node, ast.keyword) and node.arg == "help":
            left_out.update(ast.walk(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("option", "argument"):
            left_out.update(ast.walk(node))
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out
    ]


def steps(nodes):
    """The verb of each step that a module makes, and its words as far as they are written there."""
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "Step":
            continue
        if isinstance(node.args[0], ast.Constant):
            yield [argument.value for argument in node.args if isinstance(argument, ast.Constant)]


def modules():
    """The nodes of each module of the command, by its path."""
    for path in sorted(FOLDER.rglob("*.py")):
        yield path.relative_to(FOLDER).as_posix(), nodes_of(path)


def test_only_the_account_spells_commands():
    by_name = {
        name: sum(bool(re.search(r"(`|&& |^)sluice [a-z]", text)) for text in texts(nodes))
        for name, nodes in modules()
        if not name.startswith("account/") and name != "terminal/step.py"
    }
    assert {name: number for name, number in by_name.items() if number} == SPELLED


def test_viewers_make_no_step_of_their_own():
    viewers = set().union(*accounts().values())
    shows = {name for name, _ in modules() if name.startswith(("status/", "ingest/", "trace/"))} - {"trace/forget.py"}
    assert {name for name, nodes in modules() if name in viewers | shows and list(steps(nodes))} == set()


def test_no_step_becomes_text_before_the_stack_is_named():
    """As a module is imported the command line is not read yet; `completed` names the stack in the texts of risks."""
    assigned = {name: [one for one in nodes[0].body if isinstance(one, ast.Assign)] for name, nodes in modules()}
    texts_of = {name: [part for one in assignments for part in ast.walk(one)] for name, assignments in assigned.items()}
    early = {
        name
        for name, parts in texts_of.items()
        if any(isinstance(part, ast.JoinedStr) and list(steps(list(ast.walk(part)))) for part in parts)
    }
    assert early <= {"config/risks.py"}


def command_of(words):
    """The command of `sluice` that these words call."""
    command = built()
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return command


def test_every_step_calls_a_verb_that_exists():
    calls = [words for _, nodes in modules() for words in steps(nodes)]
    assert len(calls) > 100
    for verb, *words in calls:
        command = command_of(Step(verb).command.split()[1:])
        assert not hasattr(command, "commands"), verb
        accepted = {option for param in command.params for option in param.opts}
        assert {word for word in words if word.startswith("--")} <= accepted, (verb, words)


@pytest.fixture
def on_a_stack():
    token = named_stack.set("prod")
    yield
    named_stack.reset(token)


def test_a_step_quotes_its_words_for_a_shell():
    assert str(Step("trace", "a key.json", note="says")) == "`sluice trace 'a key.json'` says"


def test_a_step_names_the_stack_of_the_command_line(on_a_stack):
    assert Step("resume", "main").command == "sluice --stack prod resume main"
    assert in_a_row(Step("wait"), Step("status")) == "`sluice --stack prod wait && sluice --stack prod status`"


def test_a_text_of_the_core_gets_the_names_and_the_stack(on_a_stack):
    text = completed("TABLE: `sluice pause LANE`, `sluice quarantine retry --code a`", TABLE="crm.user", LANE=None)
    begin = "TABLE: `sluice --stack prod pause LANE`, `sluice --stack prod"
    assert text == f"{begin} quarantine retry --code a --table crm.user`"


def accounts():
    """The viewers of each module of the account, as the architecture lists them."""
    page = (FOLDER.parents[1] / "docs" / "architecture.md").read_text().split("## What the command says")[1]
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| (.+) \|$", page.split("## ")[0], re.MULTILINE)
    return {name: {f"{it.replace('.', '/')}.py" for it in re.findall(r"`([\w.]+)`", text)} for name, text in rows}


def test_the_viewers_of_each_account_are_in_the_architecture():
    assert set(accounts()) == {path.stem for path in (FOLDER / "account").glob("[a-z]*.py")}
    for module, viewers in accounts().items():
        for viewer in viewers:
            assert f"sluice_cli.account.{module} import" in (FOLDER / viewer).read_text(), viewer
