"""docs/claims.md: each claim has a test or a reason, each named test exists, and each test of a claim is named."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "claims.md"
NOT_A_CLAIM = {"test_time_does_not_pass_in_these_tests"}
OTHERWISE = "otherwise: "


class Source(NamedTuple):
    """One document: its name, the modules with its tests, and its rows."""

    name: str
    modules: list[str]
    rows: list[list[str]]


def sources() -> Iterator[Source]:
    for part in PAGE.read_text().split("\n## ")[1:]:
        rows = [line.strip("| ").split(" | ") for line in part.splitlines() if re.match(r"\| \d", line)]
        described = part[: part.index("| no. |")]
        yield Source(part.splitlines()[0], re.findall(r"`(tests/claims/\w+\.py)`", described), rows)


SOURCES = [*sources()]
each_source = pytest.mark.parametrize("source", SOURCES, ids=[source.name for source in SOURCES])


@cache
def names_of(module: str) -> list[str]:
    tree = ast.parse((REPOSITORY / module).read_text())
    return [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def named(source: Source, row: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield the modules in which a test of a row may be, and its name."""
    for name in re.findall(r"`([^`]+)`", row[4]):
        path, _, function = name.rpartition("::")
        yield ([path] if path else source.modules), function


def test_all_five_documents_exist() -> None:
    assert len(SOURCES) == 5
    assert all(source.modules and source.rows for source in SOURCES)


@each_source
def test_claims_are_numbered_and_said_once(source: Source) -> None:
    number = SOURCES.index(source) + 1
    assert [row[0] for row in source.rows] == [f"{number}.{n}" for n in range(1, len(source.rows) + 1)]
    assert all(len(row) == 5 and all(row) for row in source.rows)
    assert Counter((row[1], row[2]) for row in source.rows).most_common(1)[0][1] == 1


@each_source
def test_each_claim_has_a_test_or_a_reason(source: Source) -> None:
    for row in source.rows:
        tests = [*named(source, row)]
        assert tests or (row[3].startswith(OTHERWISE) and row[4] == "-"), row
        for modules, name in tests:
            assert all(Path(REPOSITORY / module).is_file() for module in modules), row
            assert any(name in names_of(module) for module in modules), f"{row[0]}: there is no {name}"


@each_source
def test_each_test_of_a_claim_is_named(source: Source) -> None:
    known = {
        (module, name)
        for each in SOURCES
        for row in each.rows
        for modules, name in named(each, row)
        for module in modules
    }
    written = {(module, name) for module in source.modules for name in names_of(module)}
    assert {name for module, name in written if (module, name) not in known} <= NOT_A_CLAIM
