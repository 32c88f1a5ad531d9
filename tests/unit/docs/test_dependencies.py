"""Dependencies point one way, importing does nothing, and the job's code keeps to Python 3.9."""

import ast
import sys
from collections import Counter
from functools import cache

from support.source_trees import ROOT, nodes_of, tree_of

FUNCTIONS = ROOT / "functions"
PRODUCT = ("functions", "spark", "cli", "deploy", "local")
MODULES = sorted(
    path
    for part in PRODUCT
    for path in (ROOT / part).rglob("*.py")
    if ".aws-sam" not in path.parts and "build" not in path.parts
)
JOB_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ("functions", "spark")]

# What each package may import of the others. docs/architecture.md draws it.
ALLOWED = {
    "sluice": set(),
    "sluice_formats": {"sluice"},
    "sluice_aws": {"sluice", "sluice_formats"},
    "handlers": {"sluice", "sluice_formats", "sluice_aws"},
    "sluice_spark": {"sluice", "sluice_formats", "sluice_aws"},
    "spark_entry": {"sluice", "sluice_formats", "sluice_aws", "sluice_spark"},
    "sluice_read": {"sluice", "sluice_aws"},
    "sluice_deploy": {"sluice"},
    "sluice_local": {"sluice", "sluice_aws", "sluice_deploy"},
    "sluice_cli": {"sluice", "sluice_formats", "sluice_aws", "sluice_read", "sluice_deploy", "sluice_local"},
    "localstack_executor": {"sluice_localstack_executor"},  # runs in LocalStack's own Python, without the project
}
PROJECT = set(ALLOWED) - {"handlers", "spark_entry", "localstack_executor"} | {"sluice_localstack_executor"}
# Sub-packages from the lowest floor up: a module imports from its own floor's module or from floors below.
FLOORS = {
    "sluice": (
        "errors names silver_keys prices ports",
        "changes objects",
        "config",
        "schema cost",
        "hudi batch",
        "lane iceberg",
        "services",
        "ledger catalog onboarding",
        "admission",
    ),
    "sluice_aws": (
        "errors clock failures",
        "settings call_times",
        "telemetry clients",
        "ledger price_list",
        "s3",
        "hash_keys stack",
        "audit catalog announce",
        "lanes",
        "admission services",
    ),
    "sluice_spark": ("errors ports log", "engine", "hudi", "iceberg", "merge", "services", "run", "trial"),
    # Steps that all ways of a merge share, the ways, which know nothing of each other, and `part`, which tries them.
    "sluice_spark.merge": (
        "driver_limits plan rows set_aside table_folders key_index",
        "context",
        "read",
        "schemas",
        "prepare commit history_table",
        "by_arrow by_spark",
        "part",
    ),
    "sluice_read": (
        *("errors", "moments values", "place", "listing", "reading", "past_states", "query_mistakes", "sql", "diff"),
        *("silver", "serve"),
    ),
    "sluice_cli": (
        *("errors", "terminal", "account", "config", "ingest", "status", "tables trace ops local", "verbs", "main"),
    ),
}
AWS_SDK = {"boto3", "botocore"}
# The adapters are the SDK's home. Beside them: the command's session for a named stack, and the local stack, which
# deploys.
AWS_SDK_HOME = "functions/sluice_aws/"
AWS_SDK_GUESTS = {
    "cli/sluice_cli/terminal/run.py",
    "cli/sluice_cli/terminal/stack.py",
    "cli/sluice_cli/ops/adopt_bucket.py",
    "cli/sluice_cli/ops/doctor.py",
    "cli/sluice_read/serve/problems.py",
    "cli/sluice_read/silver.py",
    "local/sluice_local/stack/deploy.py",
    "local/sluice_local/stack/get_job_run.py",
    "local/sluice_local/stack/sample_world.py",
}
# The modules that may name Hudi's options.
HUDI_OPTIONS = ("sluice.hudi", "sluice.config.hudi_overrides", "sluice.onboarding")
SIDE_EFFECTS = set(
    "client resource Session getenv get open run Popen system urlopen connect getOrCreate now time".split()
)
EFFECT_OWNERS = set("boto3 os environ subprocess socket urllib time datetime SparkSession botocore".split())


def part_of(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "functions":
        return parts[1] if parts[1] in ALLOWED else "handlers"
    if parts[0] == "spark":
        return "sluice_spark" if parts[1] == "sluice_spark" else "spark_entry"
    return parts[1] if parts[1] in ALLOWED else parts[0]


HIDDEN = "a relative import, which hides the part that is meant"


@cache
def imports(path):
    """The top-level packages that a module imports anywhere, functions and type-checking blocks included."""
    packages = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            packages.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            packages.add(HIDDEN if node.level else node.module.split(".")[0])
    return packages


def names_of(call):
    """The dotted name of what is called: boto3.client -> [boto3, client]."""
    parts, node = [], call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else list(reversed(parts))


def at_import(tree):
    """The expressions that run when a module is imported: everything outside of functions, defaults and decorators
    included.
    """
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending += [*node.decorator_list, *node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        elif not isinstance(node, ast.Lambda) and not (
            isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING")
        ):
            yield node
            pending += list(ast.iter_child_nodes(node))


def relative(path):
    return path.relative_to(ROOT).as_posix()


def core_modules():
    return [path for path in MODULES if part_of(path) == "sluice"]


def dotted(path):
    """`functions/sluice/hudi/options.py` -> `sluice.hudi.options`."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def module_imports():
    """Which modules of the project each module imports, by dotted names."""
    paths = {dotted(path): path for path in MODULES}
    imported = {}
    for name, path in paths.items():
        targets = set()
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    targets |= {whole if whole in paths else node.module} & set(paths)
        imported[name] = targets - {name}
    return imported


def cycle_in(graph):
    """The nodes that are left once every node without outgoing edges is taken away, again and again."""
    left = {node: set(targets) for node, targets in graph.items()}
    while True:
        ends = {node for node, targets in left.items() if not targets & set(left)}
        if not ends:
            return sorted(left)
        left = {node: targets for node, targets in left.items() if node not in ends}


# Each test goes through all modules and names every one that is wrong: one test per module would be slower to set up
# than to run.


def test_a_package_imports_only_packages_below_it():
    ours = PROJECT | {HIDDEN}
    beyond = {relative(path): (imports(path) & ours) - ALLOWED[part_of(path)] - {part_of(path)} for path in MODULES}
    assert {path: wrong for path, wrong in beyond.items() if wrong} == {}


def test_no_module_imports_itself_by_way_of_others():
    assert cycle_in(module_imports()) == []


def test_no_sub_package_imports_itself_by_way_of_others():
    graph = {}
    for name, targets in module_imports().items():
        if "." in name:
            home = home_of(name)
            graph.setdefault(home, set()).update({home_of(target) for target in targets if "." in target} - {home})
    assert cycle_in(graph) == []


def home_of(name):
    return ".".join(name.split(".")[:2])


def test_a_sub_package_imports_only_floors_below_it():
    wrong, edges = [], [(name, target) for name, targets in module_imports().items() for target in targets]
    for package, floors in FLOORS.items():
        floor_of = {name: number for number, names in enumerate(floors) for name in names.split()}
        depth = package.count(".") + 1
        for name, target in edges:
            if name.startswith(package + ".") and target.startswith(package + "."):
                mine, theirs = name.split(".")[depth], target.split(".")[depth]
                if theirs != mine and floor_of[theirs] >= floor_of[mine]:
                    wrong.append(f"{name} imports {target}")
    assert wrong == []


def test_a_folder_has_at_most_fifteen_modules():
    counts = Counter(
        relative(path.parent) for path in (*MODULES, *(ROOT / "bench").rglob("*.py")) if path.name != "__init__.py"
    )
    assert {folder: count for folder, count in counts.items() if count > 15} == {}


def test_no_public_class_name_is_used_twice():
    beside = (path for folder in ("bench", "tools") for path in (ROOT / folder).rglob("*.py"))
    counts = Counter(
        node.name
        for path in (*MODULES, *beside)
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in counts.items() if count > 1} == {}


def test_the_core_imports_the_standard_library_only():
    beyond = {relative(path): imports(path) - set(sys.stdlib_module_names) - {"sluice"} for path in core_modules()}
    assert {path: wrong for path, wrong in beyond.items() if wrong} == {}


def test_the_core_reads_no_clock_no_environment_and_no_file():
    forbidden = {"os", "time", "socket", "subprocess", "urllib3", "pathlib", "random", "uuid", "secrets"}
    owners, calls = ("open", "datetime", "date", "print"), ("open", "utcnow", "now", "today", "print")
    for path in core_modules():
        assert not imports(path) & forbidden, relative(path)
        called = [names_of(node) for node in nodes_of(path) if isinstance(node, ast.Call)]
        assert not [name for name in called if name and name[-1] in calls and name[0] in owners], relative(path)


def test_the_aws_sdk_stays_in_the_adapters_and_with_their_listed_guests():
    users = [relative(path) for path in MODULES if AWS_SDK & imports(path)]
    assert [path for path in users if not path.startswith(AWS_SDK_HOME) and path not in AWS_SDK_GUESTS] == []


def names_hudi_options(path):
    return any(dotted(path) == home or dotted(path).startswith(home + ".") for home in HUDI_OPTIONS)


def test_hudi_options_are_named_in_their_own_modules_only():
    beyond = [path for path in MODULES if not names_hudi_options(path)]
    constants = [(path, node.value) for path in beyond for node in nodes_of(path) if isinstance(node, ast.Constant)]
    assert {relative(path) for path, text in constants if isinstance(text, str) and text.startswith("hoodie.")} == set()


def test_importing_a_module_makes_no_client_and_reads_no_environment():
    wrong = []
    for path in MODULES:
        for node in at_import(tree_of(path)):
            if isinstance(node, ast.Call):
                name = names_of(node)
                if name[:1] == ["open"] or name and name[-1] in SIDE_EFFECTS and set(name[:-1]) & EFFECT_OWNERS:
                    wrong.append(f"{relative(path)}:{node.lineno} calls {'.'.join(name)}")
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
                wrong.append(f"{relative(path)}:{node.lineno} reads the environment")
            elif isinstance(node, (ast.For, ast.While, ast.With)):
                wrong.append(f"{relative(path)}:{node.lineno} works at import")
    assert wrong == []


def test_functions_and_jobs_are_written_in_python_3_9():
    wrong = []
    for path in JOB_MODULES:
        for node in nodes_of(path):
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
        imported = [node for node in tree_of(path).body if isinstance(node, ast.ImportFrom)]
        of_future = [alias.name for node in imported if node.module == "__future__" for alias in node.names]
        postponed = "annotations" in of_future
        if not postponed and any(
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
            for annotation in annotations(path)
            for node in ast.walk(annotation)
        ):
            evaluated.append(relative(path))
    assert evaluated == [], "these need `from __future__ import annotations`"


def annotations(path):
    for node in nodes_of(path):
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            yield node.returns


def test_no_module_has_a_catch_all_name_and_each_has_a_docstring():
    assert [relative(path) for path in MODULES if path.stem in ("utils", "helpers", "common", "manager", "misc")] == []
    modules = [path for path in MODULES if path.stem != "__init__"]
    assert [relative(path) for path in modules if not ast.get_docstring(tree_of(path))] == []


def test_the_glossary_has_each_function():
    glossary = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("\n## Glossary\n")[2]
    functions = sorted(path.parent.name for path in FUNCTIONS.glob("*/handler.py"))
    assert len(functions) > 5
    assert [name for name in functions if f"\n| `{name}` |" not in glossary] == []
