"""Which module may import which. A module imports only what stands below it, so each layer can be read alone."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "kafka_offsets"

MAY_IMPORT = {
    "errors": set(),
    "clock": set(),
    "logs": set(),
    "memory": set(),
    "schema_files": set(),
    "protocol": {"errors", "clock", "schema_files"},
    "storage": {"errors", "clock", "logs", "protocol"},
    "coordinator": {"errors", "clock", "logs", "protocol"},
    "client": {"errors", "clock", "protocol"},
    "inspect": {"errors", "clock", "protocol"},
    "broker": {"errors", "clock", "logs", "memory", "protocol", "storage", "coordinator", "client"},
    "testing": {
        "errors",
        "clock",
        "logs",
        "protocol",
        "storage",
        "coordinator",
        "client",
        "broker",
        "__init__",
    },
    "spark": {"errors", "clock", "logs", "memory", "protocol", "storage", "coordinator", "client"},
}
"""What each part may import of the others. The tops, and they alone, may import everything."""

TOPS = ("cli", "commands", "__init__")

EFFECTS = {"asyncio", "os", "socket", "time", "random", "threading"}
"""What a pure part never imports: with these a result depends on more than the arguments."""


class Import(NamedTuple):
    """One direct import.

    module  of the package: ("protocol", "codec")
    name    what is imported, such as `os.path`
    """

    path: Path
    line: int
    module: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(REPOSITORY)}:{self.line} imports {self.name}"

    @property
    def part(self) -> str:
        return self.module[0]

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]


def imports_of(path: Path, root: Path = PACKAGE) -> Iterator[Import]:
    """Yield every import of a file, also those inside functions and under TYPE_CHECKING."""
    module = path.relative_to(root).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, module, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ("kafka_offsets", *module)[: -node.level]
                base = ".".join((*package, *filter(None, [node.module])))
            for alias in node.names:
                yield Import(path, node.lineno, module, f"{base}.{alias.name}")


IMPORTS = [found for path in sorted(PACKAGE.rglob("*.py")) for found in imports_of(path)]


def imported_part(found: Import) -> str | None:
    """Return the part of this package that is imported, or None for other packages."""
    names = found.name.split(".")
    if names[0] != "kafka_offsets":
        return None
    if len(names) > 1 and ((PACKAGE / names[1]).is_dir() or (PACKAGE / f"{names[1]}.py").is_file()):
        return names[1]
    return "__init__"


def report(offending: list[Import]) -> str:
    return "\n".join(map(str, offending))


def test_a_module_imports_only_what_stands_below_it() -> None:
    offending = []
    for found in IMPORTS:
        part = imported_part(found)
        if found.part in TOPS or part is None or part == found.part:
            continue
        if part not in MAY_IMPORT[found.part]:
            offending.append(found)
    assert not offending, report(offending)


def module_of(found: Import) -> tuple[str, ...]:
    """Return the module of this package that is imported, or the package of a room."""
    names = tuple(found.name.split(".")[1:])
    while names and not PACKAGE.joinpath(*names).with_suffix(".py").is_file():
        names = names[:-1]
    return names


def test_the_modules_of_the_coordinator_import_each_other_in_one_direction() -> None:
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for found in IMPORTS:
        if found.part == imported_part(found) == "coordinator":
            graph.setdefault(found.module, set()).add(module_of(found))
    TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_every_logger_escapes_what_clients_choose() -> None:
    making = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "getLogger" and path.name != "logs.py"
    ]
    assert not making, "\n".join(making)


def test_every_part_of_the_package_has_its_place_in_the_layers() -> None:
    parts = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert parts <= {*MAY_IMPORT, *TOPS}


@pytest.mark.parametrize("part", ["protocol", "coordinator"])
def test_a_pure_part_imports_nothing_that_has_effects(part: str) -> None:
    offending = [found for found in IMPORTS if found.part == part and found.package in EFFECTS]
    assert not offending, report(offending)


def test_only_what_serves_knows_asyncio() -> None:
    offending = [
        found
        for found in IMPORTS
        if found.part == "broker" and found.package == "asyncio" and found.module[1] != "network"
    ]
    assert not offending, report(offending)


@pytest.mark.parametrize(
    ("package", "home"),
    [
        ("construct", {"inspect"}),
        ("pyspark", {"spark", "commands"}),
        ("pyarrow", {"spark"}),
        ("kazoo", {"broker"}),
        ("hypothesis", {"testing"}),
    ],
)
def test_a_heavy_package_is_imported_in_one_place(package: str, home: set[str]) -> None:
    offending = [found for found in IMPORTS if found.package == package and found.part not in home]
    assert not offending, report(offending)


def test_numpy_is_imported_by_few_modules_that_nothing_imports_before_it_is_needed() -> None:
    users = {found.module for found in IMPORTS if found.package == "numpy" and found.part != "spark"}
    assert users == {
        ("storage", "batch_walk"),
        ("storage", "columnar"),
        ("storage", "cleaner", "key_columns"),
        ("storage", "cleaner", "key_table"),
        ("coordinator", "stored_columns"),
        ("coordinator", "bulk_replay"),
        ("coordinator", "dense_ids"),
    }


def test_schema_files_are_found_by_one_module() -> None:
    mentioning = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in ("schemas", "*.schema")
    }
    assert mentioning == {"schema_files.py"}


@pytest.mark.parametrize("part", ["protocol", "coordinator"])
def test_a_pure_part_opens_no_files(part: str) -> None:
    opening = [f"{found}" for found in IMPORTS if found.part == part and found.package in ("pathlib", "io")]
    for path in (PACKAGE / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id == "open":
                opening.append(f"{path.relative_to(REPOSITORY)}:{node.lineno} calls open")
    assert not opening, "\n".join(opening)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import os.path", "os.path"),
        ("def f():\n    from time import sleep", "time.sleep"),
        ("from . import schema", "kafka_offsets.protocol.schema"),
        ("from ..storage import log", "kafka_offsets.storage.log"),
        ("from .codec import Decoder", "kafka_offsets.protocol.codec.Decoder"),
    ],
)
def test_every_form_of_import_is_seen(tmp_path: Path, source: str, name: str) -> None:
    path = tmp_path / "protocol" / "sample.py"
    path.parent.mkdir()
    path.write_text(source, encoding="utf-8")
    assert [found.name for found in imports_of(path, tmp_path)] == [name]
