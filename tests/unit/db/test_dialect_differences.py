"""Each override in a dialect explains what differs between the databases."""

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from mayfly.db import dialects
from mayfly.db.dialects import mysql, postgres, sqlite


def class_statements(module: ModuleType) -> Iterator[tuple[str, ast.stmt]]:
    """Name and statement of every attribute that the dialect class of a module defines."""
    classes = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)]
    found = [node for node in classes if "Dialect" in (node.name, *(ast.unparse(each) for each in node.bases))]
    for node in (statement for each in found for statement in each.body):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((ast.unparse(target), node) for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target), node


def has_default(statement: ast.stmt) -> bool:
    declared_only = isinstance(statement, ast.AnnAssign) and statement.value is None
    return not declared_only and "NotImplementedError" not in ast.unparse(statement)


SHARED = {name for name, statement in class_statements(dialects) if has_default(statement)}


@pytest.mark.parametrize("module", [mysql, postgres, sqlite])
def test_every_override_is_explained(module: ModuleType) -> None:
    """An override of a shared default has a comment that begins with "Differs because", above or inside it."""
    lines = inspect.getsource(module).splitlines()
    overrides = [(name, node) for name, node in class_statements(module) if name in SHARED]
    unexplained = [
        name
        for name, node in overrides
        if not any("# Differs because" in line for line in lines[node.lineno - 2 : node.end_lineno])
    ]

    assert {"begin", "upsert", "claim_lock"} <= SHARED
    assert overrides
    assert unexplained == []
