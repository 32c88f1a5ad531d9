"""Dependencies point one way, importing does nothing, and the job's code keeps to Python 3.9."""
import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "functions"
PRODUCT = ("functions", "spark", "cli", "local")
MODULES = sorted(path for part in PRODUCT for path in (ROOT / part).rglob("*.py") if ".aws-sam" not in path.parts and "build" not in path.parts)
JOB_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ("functions", "spark")]

# What each part of the project may import of the project. Handlers and jobs and commands -> adapters -> core.
ALLOWED = {
    "sluice": {"sluice"},
    "sluice_aws": {"sluice", "sluice_aws"},
    "handlers": {"sluice", "sluice_aws"},
    "sluice_spark": {"sluice", "sluice_aws", "sluice_spark"},
    "spark_entry": {"sluice", "sluice_aws", "sluice_spark"},
    "sluice_cli": {"sluice", "sluice_aws", "sluice_cli", "sluice_local"},
    "sluice_local": {"sluice", "sluice_aws", "sluice_cli", "sluice_local"},
}
PROJECT = {"sluice", "sluice_aws", "sluice_spark", "sluice_cli", "sluice_local"}
AWS_SDK = {"boto3", "botocore"}
# The adapters are the SDK's home. Beside them: the command's session for a named stack, and the local stack, which deploys.
AWS_SDK_HOME = "functions/sluice_aws/"
AWS_SDK_GUESTS = {
    "cli/sluice_cli/doctor_command.py", "cli/sluice_cli/main.py", "cli/sluice_cli/supervising.py", "cli/sluice_cli/target.py",
    "local/sluice_local/deploy.py", "local/sluice_local/stack.py",
}
HUDI_OPTIONS = FUNCTIONS / "sluice" / "hudi_options.py"
SIDE_EFFECTS = {"client", "resource", "Session", "getenv", "get", "open", "run", "Popen", "system", "urlopen", "connect", "getOrCreate", "now", "time"}
EFFECT_OWNERS = {"boto3", "os", "environ", "subprocess", "socket", "urllib", "time", "datetime", "SparkSession", "botocore"}


def part_of(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "functions":
        return parts[1] if parts[1] in ALLOWED else "handlers"
    if parts[0] == "spark":
        return "sluice_spark" if parts[1] == "sluice_spark" else "spark_entry"
    return parts[1] if parts[1] in ALLOWED else parts[0]


@cache
def tree_of(path, **how):
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path), **how)


@cache
def nodes_of(tree):
    return tuple(ast.walk(tree))


def imports(tree):
    """The top-level packages that a module imports anywhere, functions and type-checking blocks included."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            pytest.fail("relative imports hide which part is meant")


def names_of(call):
    """The dotted name of what is called: boto3.client -> [boto3, client]."""
    found, node = [], call.func
    while isinstance(node, ast.Attribute):
        found.append(node.attr)
        node = node.value
    return [node.id, *reversed(found)] if isinstance(node, ast.Name) else list(reversed(found))


def at_import(tree):
    """The expressions that run when a module is imported: everything outside of functions, defaults and decorators included."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending += [*node.decorator_list, *node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        elif isinstance(node, ast.Lambda) or isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING"):
            continue
        else:
            yield node
            pending += list(ast.iter_child_nodes(node))


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_imports_only_parts_that_are_below_its_own(path):
    beyond = (set(imports(tree_of(path))) & PROJECT) - ALLOWED[part_of(path)]
    assert not beyond, f"{relative(path)} imports {sorted(beyond)}"


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) == "sluice"], ids=relative)
def test_the_core_imports_the_standard_library_only(path):
    beyond = set(imports(tree_of(path))) - set(sys.stdlib_module_names) - {"sluice"}
    assert not beyond, f"{relative(path)} imports {sorted(beyond)}"


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) == "sluice"], ids=relative)
def test_the_core_reads_no_clock_no_environment_and_no_file(path):
    tree = tree_of(path)
    assert not set(imports(tree)) & {"os", "time", "socket", "subprocess", "urllib3", "pathlib", "random", "uuid", "secrets"}, relative(path)
    calls = [names_of(node) for node in nodes_of(tree) if isinstance(node, ast.Call)]
    assert not [name for name in calls if name and (name[-1] in ("open", "utcnow", "now", "today", "print") and name[0] in ("open", "datetime", "date", "print"))], relative(path)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_the_aws_sdk_stays_in_the_adapters_and_with_their_listed_guests(path):
    if AWS_SDK & set(imports(tree_of(path))):
        assert relative(path).startswith(AWS_SDK_HOME) or relative(path) in AWS_SDK_GUESTS, f"{relative(path)} imports the AWS SDK"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_hudi_options_are_named_in_one_module(path):
    written = [node.value for node in nodes_of(tree_of(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if path != HUDI_OPTIONS:
        assert not [text for text in written if text.startswith("hoodie.")], f"{relative(path)} names a Hudi option"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_importing_a_module_makes_no_client_and_reads_no_environment(path):
    for node in at_import(tree_of(path)):
        if isinstance(node, ast.Call):
            name = names_of(node)
            assert not (len(name) > 1 and name[-1] in SIDE_EFFECTS and set(name[:-1]) & EFFECT_OWNERS) and name[:1] != ["open"], f"{relative(path)}:{node.lineno} calls {'.'.join(name)}"
        assert not isinstance(node, ast.Subscript) or ast.unparse(node.value) != "os.environ", f"{relative(path)}:{node.lineno} reads the environment"
        assert not isinstance(node, (ast.For, ast.While, ast.With)), f"{relative(path)}:{node.lineno} works at import"


@pytest.mark.parametrize("path", JOB_MODULES, ids=relative)
def test_functions_and_jobs_are_written_in_python_3_9(path):
    tree = tree_of(path, feature_version=(3, 9))
    matches = [node.lineno for node in nodes_of(tree) if isinstance(node, getattr(ast, "Match", ()))]
    assert not matches, f"{relative(path)}:{matches} needs Python 3.10"
    slotted = [node.lineno for node in nodes_of(tree) if isinstance(node, ast.Call) and names_of(node)[-1:] == ["dataclass"] and {"slots", "kw_only"} & {keyword.arg for keyword in node.keywords}]
    assert not slotted, f"{relative(path)}:{slotted} uses what dataclasses have from Python 3.10"


@pytest.mark.parametrize("path", JOB_MODULES, ids=relative)
def test_annotations_with_newer_forms_are_never_evaluated(path):
    tree = tree_of(path)
    unions = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) for annotation in annotations(tree) for node in ast.walk(annotation))
    postponed = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" and any(alias.name == "annotations" for alias in node.names) for node in tree.body)
    assert postponed or not unions, f"{relative(path)} needs `from __future__ import annotations`"


def annotations(tree):
    for node in nodes_of(tree):
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            yield node.returns


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_module_is_a_drawer_for_everything_and_each_says_what_it_is_for(path):
    assert path.stem not in ("utils", "helpers", "common", "manager", "misc")
    if path.stem != "__init__":
        assert ast.get_docstring(tree_of(path)), f"{relative(path)} doesn't say what it is for"
