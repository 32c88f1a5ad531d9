"""Dependencies point one way, importing does nothing, and the job's code keeps to Python 3.9."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "functions"
PRODUCT = ("functions", "spark", "cli", "local")
MODULES = sorted(
    path
    for part in PRODUCT
    for path in (ROOT / part).rglob("*.py")
    if ".aws-sam" not in path.parts and "build" not in path.parts
)
JOB_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ("functions", "spark")]

# What each part of the project may import of the project. Handlers and jobs and commands -> adapters -> core.
ALLOWED = {
    "sluice": {"sluice"},
    "sluice_aws": {"sluice", "sluice_aws"},
    "handlers": {"sluice", "sluice_aws"},
    "sluice_spark": {"sluice", "sluice_aws", "sluice_spark"},
    "spark_entry": {"sluice", "sluice_aws", "sluice_spark"},
    "sluice_cli": {
        "sluice",
        "sluice_aws",
        "sluice_cli",
        "sluice_local",
        "sluice_spark",
    },  # of the job, what needs no Spark: see below
    "sluice_local": {"sluice", "sluice_aws", "sluice_cli", "sluice_local"},
    "localstack_executor": {
        "sluice_localstack_executor"
    },  # runs in LocalStack's own Python, with nothing of the project beside it
    "sluice_read": {"sluice", "sluice_aws", "sluice_cli", "sluice_read"},
}
PROJECT = {
    "sluice",
    "sluice_aws",
    "sluice_spark",
    "sluice_cli",
    "sluice_local",
    "sluice_read",
    "sluice_localstack_executor",
}
AWS_SDK = {"boto3", "botocore"}
# The adapters are the SDK's home. Beside them: the command's session for a named stack, and the local stack, which deploys.
AWS_SDK_HOME = "functions/sluice_aws/"
AWS_SDK_GUESTS = {
    "cli/sluice_cli/doctor_command.py",
    "cli/sluice_cli/main.py",
    "cli/sluice_cli/supervising.py",
    "cli/sluice_cli/target.py",
    "local/sluice_local/deploy.py",
    "local/sluice_local/stack.py",
    "local/sluice_local/start_and_wait.py",
    "local/sluice_local/events_world.py",
    "cli/sluice_cli/adopt_command.py",
}
HUDI_OPTIONS = FUNCTIONS / "sluice" / "hudi_options.py"
SIDE_EFFECTS = {
    "client",
    "resource",
    "Session",
    "getenv",
    "get",
    "open",
    "run",
    "Popen",
    "system",
    "urlopen",
    "connect",
    "getOrCreate",
    "now",
    "time",
}
EFFECT_OWNERS = {
    "boto3",
    "os",
    "environ",
    "subprocess",
    "socket",
    "urllib",
    "time",
    "datetime",
    "SparkSession",
    "botocore",
}


def part_of(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "functions":
        return parts[1] if parts[1] in ALLOWED else "handlers"
    if parts[0] == "spark":
        return "sluice_spark" if parts[1] == "sluice_spark" else "spark_entry"
    return parts[1] if parts[1] in ALLOWED else parts[0]


@cache
def tree_of(path):
    """What a module says. Of functions and jobs, parsed as Python 3.9: newer syntax is an error that names file and line."""
    return ast.parse(
        path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 9) if path in JOB_MODULES else None
    )


@cache
def nodes_of(tree):
    return tuple(ast.walk(tree))


@cache
def imports(tree):
    """The top-level packages that a module imports anywhere, functions and type-checking blocks included."""
    found = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(
                node.module.split(".")[0]
                if node.level == 0
                else "a relative import, which hides the part that is meant"
            )
    return found


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
        elif (
            isinstance(node, ast.Lambda)
            or isinstance(node, ast.If)
            and ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING")
        ):
            continue
        else:
            yield node
            pending += list(ast.iter_child_nodes(node))


def relative(path):
    return path.relative_to(ROOT).as_posix()


def core_modules():
    return [path for path in MODULES if part_of(path) == "sluice"]


# Each of these goes through all modules and says every one that is wrong: a test for each module would take longer to set up than to run.


def test_a_module_imports_only_parts_that_are_below_its_own():
    known = PROJECT | {"a relative import, which hides the part that is meant"}
    beyond = {relative(path): (imports(tree_of(path)) & known) - ALLOWED[part_of(path)] for path in MODULES}
    assert {path: found for path, found in beyond.items() if found} == {}


def test_what_the_command_uses_of_the_job_needs_no_spark():
    """`sluice row` decodes objects as a read task does, on machines without a JVM and without pyspark."""
    by_name = {f"sluice_spark.{path.stem}": path for path in MODULES if part_of(path) == "sluice_spark"}
    pending = [name for path in MODULES if part_of(path) == "sluice_cli" for name in job_modules(tree_of(path))]
    seen = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += job_modules(tree_of(by_name[name]))
    assert seen, "the command uses nothing of the job: take this test and the permission out"
    assert {
        name: imports(tree_of(by_name[name])) & {"pyspark", "py4j"}
        for name in seen
        if imports(tree_of(by_name[name])) & {"pyspark", "py4j"}
    } == {}


def job_modules(tree):
    return [
        node.module
        for node in nodes_of(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sluice_spark.")
    ]


def test_the_core_imports_the_standard_library_only():
    beyond = {
        relative(path): imports(tree_of(path)) - set(sys.stdlib_module_names) - {"sluice"} for path in core_modules()
    }
    assert {path: found for path, found in beyond.items() if found} == {}


def test_the_core_reads_no_clock_no_environment_and_no_file():
    forbidden = {"os", "time", "socket", "subprocess", "urllib3", "pathlib", "random", "uuid", "secrets"}
    for path in core_modules():
        tree = tree_of(path)
        assert not imports(tree) & forbidden, relative(path)
        calls = [names_of(node) for node in nodes_of(tree) if isinstance(node, ast.Call)]
        assert not [
            name
            for name in calls
            if name
            and (
                name[-1] in ("open", "utcnow", "now", "today", "print")
                and name[0] in ("open", "datetime", "date", "print")
            )
        ], relative(path)


def test_the_aws_sdk_stays_in_the_adapters_and_with_their_listed_guests():
    users = [relative(path) for path in MODULES if AWS_SDK & imports(tree_of(path))]
    assert [path for path in users if not path.startswith(AWS_SDK_HOME) and path not in AWS_SDK_GUESTS] == []


def test_hudi_options_are_named_in_one_module():
    naming = [
        relative(path)
        for path in MODULES
        if path != HUDI_OPTIONS
        and any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("hoodie.")
            for node in nodes_of(tree_of(path))
        )
    ]
    assert naming == []


def test_importing_a_module_makes_no_client_and_reads_no_environment():
    wrong = []
    for path in MODULES:
        for node in at_import(tree_of(path)):
            if isinstance(node, ast.Call):
                name = names_of(node)
                if (
                    len(name) > 1
                    and name[-1] in SIDE_EFFECTS
                    and set(name[:-1]) & EFFECT_OWNERS
                    or name[:1] == ["open"]
                ):
                    wrong.append(f"{relative(path)}:{node.lineno} calls {'.'.join(name)}")
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
                wrong.append(f"{relative(path)}:{node.lineno} reads the environment")
            elif isinstance(node, (ast.For, ast.While, ast.With)):
                wrong.append(f"{relative(path)}:{node.lineno} works at import")
    assert wrong == []


def test_functions_and_jobs_are_written_in_python_3_9():
    wrong = []
    for path in JOB_MODULES:
        for node in nodes_of(tree_of(path)):
            if isinstance(node, getattr(ast, "Match", ())):
                wrong.append(f"{relative(path)}:{node.lineno} needs Python 3.10")
            elif (
                isinstance(node, ast.Call)
                and names_of(node)[-1:] == ["dataclass"]
                and {"slots", "kw_only"} & {keyword.arg for keyword in node.keywords}
            ):
                wrong.append(f"{relative(path)}:{node.lineno} uses what dataclasses have from Python 3.10")
    assert wrong == []


def test_annotations_with_newer_forms_are_never_evaluated():
    evaluated = []
    for path in JOB_MODULES:
        tree = tree_of(path)
        postponed = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )
        if not postponed and any(
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
            for annotation in annotations(tree)
            for node in ast.walk(annotation)
        ):
            evaluated.append(relative(path))
    assert evaluated == [], "these need `from __future__ import annotations`"


def annotations(tree):
    for node in nodes_of(tree):
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            yield node.returns


def test_no_module_is_a_drawer_for_everything_and_each_says_what_it_is_for():
    assert [relative(path) for path in MODULES if path.stem in ("utils", "helpers", "common", "manager", "misc")] == []
    assert [
        relative(path) for path in MODULES if path.stem != "__init__" and not ast.get_docstring(tree_of(path))
    ] == []


def test_the_unit_tests_ask_no_emulator():
    """They take seconds. What asks AWS as it is emulated in the tests' own process is in tests/emulated."""
    asks = re.compile(
        r"^\s*(?:from|import) (?:emulated_aws|emulated_stack|function_world|catalog_world|silver_tables|driving|moto)\b",
        re.MULTILINE,
    )
    unit = sorted((ROOT / "tests" / "unit").glob("*.py"))
    assert asks.search((ROOT / "tests" / "emulated" / "conftest.py").read_text(encoding="utf-8"))
    assert [path.name for path in unit if asks.search(path.read_text(encoding="utf-8"))] == []


def test_no_two_test_modules_share_a_name_since_pytest_imports_them_by_it():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
