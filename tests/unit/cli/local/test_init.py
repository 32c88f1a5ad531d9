"""`sluice init` writes a project, whole or not at all, and a distribution holds what it needs."""

from pathlib import Path

import pytest
import yaml
from support.builders import in_a_terminal

from sluice_cli.config.source import read_tables
from sluice_cli.local.init import FILES
from sluice_cli.main import run
from sluice_deploy import release
from sluice_deploy.template import read_template

ROOT = Path(__file__).resolve().parents[4]
KEYS = ("CodeUri", "DefinitionS3Location")


def test_a_project_has_what_its_template_and_its_makefile_name(tmp_path):
    assert run(["init", str(tmp_path / "lake")]) == 0
    project = tmp_path / "lake"
    read_tables((project / "tables.yaml").read_text())
    assert "$schema=tables.schema.json" in (project / "tables.yaml").read_text()
    template = read_template(project / "template.yaml")
    paths = {Resource["Properties"].get(key) for Resource in template["Resources"].values() for key in KEYS} - {None}
    assert {path for path in paths if not (project / path).exists()} == {".aws-sam/functions.zip"}
    assert "package --functions .aws-sam/functions.zip " in (project / "Makefile").read_text()


def test_a_new_project_has_one_example_rule_and_names_nothing_that_is_not_there(tmp_path, capsys):
    assert run(["init", str(tmp_path)]) == 0
    text = (tmp_path / "tables.yaml").read_text()
    assert [rule.topic for rule in read_tables(text).rules] == ["example.public.user"]
    assert "tickit" not in text and "docs/" not in text
    assert f"next step: `cd {tmp_path}`, edit tables.yaml" in (said := capsys.readouterr().err)
    assert "sluice local up" in said
    assert run(["config", "check", str(tmp_path / "tables.yaml")]) == 0
    assert capsys.readouterr().err == "", "the tool's own file is not warned of"


@pytest.mark.parametrize("there", ["Makefile", "template.yaml"])
def test_nothing_is_written_over_a_file_that_is_there(there, tmp_path, capsys):
    (tmp_path / there).write_text("mine")
    assert run(["init", str(tmp_path)]) == 2
    assert there in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(there, "mine")]


RENEWED = {"Makefile", "template.yaml"}
OWN = {"tables.yaml", "samconfig.toml"}


@pytest.fixture
def project(tmp_path):
    """A project of an older release, with the owner's rules and settings. Returns its files by name."""
    assert run(["init", str(tmp_path)]) == 0
    for name in RENEWED | OWN:
        (tmp_path / name).write_text("# old\n")

    return lambda: {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_project_gets_the_files_of_this_release_and_keeps_its_rules_and_settings(project, tmp_path, capsys):
    before = project()
    capsys.readouterr()
    assert run(["init", str(tmp_path), "--yes"]) == 0
    after = project()
    assert {name for name in after if after[name] != before.get(name)} == RENEWED
    assert after["template.yaml"] == (ROOT / "template.yaml").read_text() and "\nhelp:" in after["Makefile"]
    assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == RENEWED
    assert run(["init", str(tmp_path)]) == 0, "nothing is left to ask about"
    said = capsys.readouterr()
    assert said.out == "" and "has the files of this release already" in said.err and project() == after


@pytest.mark.parametrize("terminal", [True, False])
def test_a_project_is_not_renewed_without_a_yes(terminal, project, tmp_path, monkeypatch, capsys):
    before = project()
    asked = in_a_terminal(monkeypatch, False) if terminal else []
    assert run(["init", str(tmp_path)]) == (1 if terminal else 2)
    assert project() == before
    if terminal:
        assert all(name in asked[0] for name in RENEWED) and "tables.schema.json" not in asked[0]
    else:
        assert "--yes to go on without a question" in capsys.readouterr().err


def test_a_distribution_gives_the_same_sources_as_a_clone(tmp_path, monkeypatch):
    bundle = tmp_path / release.BUNDLED
    for part in ("admit", "supervise"):
        (bundle / "functions").mkdir(parents=True, exist_ok=True)
        (bundle / "functions" / part).symlink_to(ROOT / "functions" / part)
    for package in ("sluice", "sluice_aws"):
        (tmp_path / package).symlink_to(ROOT / "functions" / package)
    monkeypatch.setattr(release, "_INSTALLED", tmp_path)
    parts = ("sluice", "sluice_aws", "admit", "supervise")
    packages = release.read_packages(bundle / "functions", parts)
    assert packages == release.read_packages(ROOT / "functions", parts) and len(packages) > 100


def test_the_wheel_is_given_each_file_of_a_project_and_each_handler():
    pyproject = (ROOT / "pyproject.toml").read_text()
    handlers = {path.parent.name for path in (ROOT / "functions").glob("*/handler.py")}
    needed = {*(Path(source).parts[0] for source in FILES.values() if "statemachines" in source)}
    needed |= {source for source in FILES.values() if "statemachines" not in source}
    needed |= {f"functions/{name}" for name in handlers}
    assert [name for name in sorted(needed) if f'"{name}" = "{release.BUNDLED}/{name}"' not in pyproject] == []
    assert yaml.safe_load((ROOT / "tables.yaml").read_text())["tables"]


@pytest.mark.parametrize(
    ("command", "step"),
    [
        (["package", "--arch", "sparc"], "Give --arch x86_64, --arch arm64, --arch both or --arch host"),
        (["ops", "adopt-bucket", "--via", "pigeon"], "Give --via "),
    ],
)
def test_a_value_that_is_no_choice_is_followed_by_the_choices(command, step, capsys):
    assert run(command) == 2
    assert f"next step: {step}" in capsys.readouterr().err
