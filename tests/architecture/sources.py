"""The project's own source as trees, so that rules about it can be written down as tests."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mayfly", "dispatcher", "runner", "handlers", "console")


@dataclass(frozen=True)
class Import:
    module: str  # mayfly.queue.claim
    names: tuple[str, ...]  # what is taken from it; none where the module itself is imported
    line: int
    at_start: bool  # at module level: whoever imports this file imports that too
    for_types: bool  # under TYPE_CHECKING: nobody ever imports it

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Source:
    """One file: its path from the root, and its text."""

    path: str
    text: str

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def imports(self) -> list[Import]:
        for_types = _within(filter(self._is_for_type_checkers, self.nodes))
        late = _within(self.functions) | for_types
        return [
            each
            for node in self.nodes
            for each in self._imports_of(node, at_start=id(node) not in late, for_types=id(node) in for_types)
        ]

    def _is_for_type_checkers(self, node: ast.AST) -> bool:
        return isinstance(node, ast.If) and self.dotted(node.test) == "typing.TYPE_CHECKING"

    def _imports_of(self, node: ast.AST, at_start: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), node.lineno, at_start, for_types)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import(self._absolute(node), names, node.lineno, at_start, for_types)

    def _absolute(self, node: ast.ImportFrom) -> str:
        above = Path(self.path).parent.parts
        parts = above[: len(above) - node.level + 1] if node.level else ()
        return ".".join([*parts, *([node.module] if node.module else [])])

    @cached_property
    def names(self) -> dict[str, str]:
        """What each imported name stands for: {"now": "mayfly.clock.host_now"}."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom):
                module = self._absolute(node)
                found |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
        return found

    def dotted(self, node: ast.AST) -> str:
        """`os.environ` for the expression os.environ, and also where it was imported as something else."""
        if isinstance(node, ast.Attribute):
            inner = self.dotted(node.value)
            return f"{inner}.{node.attr}" if inner else ""
        return self.names.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield self.dotted(node.func), node

    def uses(self) -> Iterator[tuple[str, ast.expr]]:
        """Every name and every dotted name, wherever it stands."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute | ast.Name) and (dotted := self.dotted(node)):
                yield dotted, node

    def at(self, line: int, what: str) -> str:
        return f"{self.path}:{line}: {what}"


def _within(nodes: Iterable[ast.AST]) -> set[int]:
    return {id(node) for each in nodes for node in ast.walk(each)}


@cache
def sources(*packages: str) -> tuple[Source, ...]:
    """All files of these packages, of all that there are if none is named."""
    files = (path for package in packages or PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return tuple(Source(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in files)


def without(found: Iterable[str], exceptions: dict[str, str]) -> list[str]:
    """What is found in files that are no named exception. An exception that nobody needs is found too."""
    kept, needed = [], set()
    for each in found:
        path = each.partition(":")[0]
        if path in exceptions:
            needed.add(path)
        else:
            kept.append(each)
    return kept + [f"{path}: is excepted and need not be" for path in sorted(exceptions.keys() - needed)]


def told(found: Iterable[str]) -> str:
    return "\n" + "\n".join(found)
