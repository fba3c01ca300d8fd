"""Which rules of the package does a simulation reach?

A rule is a function, or a line of a function that names an error code; of two codes in one line both count as reached.
The package `coverage` sees the lines that run, in the modules that are asked for and no others.
"""

import ast
import functools
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import coverage

from tests.conftest import REPOSITORY

Rules = dict[str, set[int]]
"""The lines of each rule, one of which runs where it is reached."""


def modules_of(*patterns: str) -> list[Path]:
    """Return the modules of kafka_offsets that patterns name."""
    return sorted({path for pattern in patterns for path in (REPOSITORY / "kafka_offsets").glob(pattern)})


def rules_of(path: Path) -> Rules:
    """Return the rules of a module."""
    module = ".".join(path.relative_to(REPOSITORY / "kafka_offsets").with_suffix("").parts)
    rules: Rules = {}
    for name, node in _named(ast.parse(path.read_text(encoding="utf-8")), module):
        match node:
            case ast.FunctionDef(body=[*_, last]) if not _is_constant(last):
                rules.setdefault(name, set()).update(line.lineno for line in node.body)
            case ast.Attribute(value=ast.Name("ErrorCode"), attr=code) if name != module and code != "NONE":
                rules.setdefault(f"{name} {code}", set()).add(node.lineno)
    return rules


def _is_constant(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring or `...`: a function that ends with it is a declaration."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _named(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node below one, with the function or class that it is in; a function is in itself."""
    for child in ast.iter_child_nodes(node):
        is_definition = isinstance(child, ast.FunctionDef | ast.ClassDef)
        inner = f"{name}.{child.name}" if is_definition else name
        yield inner, child
        yield from _named(child, inner)


def unreached(modules: Collection[Path], runs: Iterable[object], known: Collection[str]) -> list[str]:
    """Return the rules of the modules that runs do not reach, and print how many they do.

    known  runs end when they have reached all rules but these
    """
    for name in [name for name in sys.modules if name.startswith("kafka_offsets.")]:
        for value in vars(sys.modules[name]).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()  # what ran before in this process may have left results
    rules = {str(path): rules_of(path) for path in modules}
    measured = coverage.Coverage(data_file=None, config_file=False, include=[*rules])
    missed: list[str] = []
    with measured.collect():
        for _ in runs:
            lines = {path: set(measured.get_data().lines(path) or ()) for path in rules}
            missed = [rule for path in rules for rule, at in rules[path].items() if not at & lines[path]]
            if not set(missed).difference(known):
                break
    count = sum(map(len, rules.values()))
    print(f"{count - len(missed)} of {count} rules in {len(rules)} modules are reached")
    return missed
