"""The product's sources as trees, each read once in a process for all tests that look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tree_of(path: Path) -> ast.Module:
    """What a module says. Of functions and jobs, as Python 3.9: newer syntax is an error that names file and line."""
    of_job = path.relative_to(ROOT).parts[0] in ("functions", "spark")
    text = path.read_text(encoding="utf-8")
    return ast.parse(text, filename=str(path), feature_version=(3, 9) if of_job else None)


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree."""
    return tuple(ast.walk(tree_of(path)))
