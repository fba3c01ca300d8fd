"""Which module may import which. A module imports only what stands below it, so each layer can be read alone."""

import ast
import dataclasses
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_offsets.broker.context.context import Context
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "kafka_offsets"

MAY_IMPORT = {
    "errors": set(),
    "clock": set(),
    "installation": set(),
    "lag": set(),
    "terminal": set(),
    "incidents": set(),
    "diagnosis": {"clock", "errors", "incidents"},
    "logs": {"terminal"},
    "memory": set(),
    "schema_files": set(),
    "texts": set(),
    "protocol": {"errors", "clock", "schema_files"},
    "assignors": {"errors", "protocol"},
    "columns": {"errors", "protocol"},
    "security": {"errors", "clock", "installation", "texts", "logs", "protocol"},
    "storage": {"errors", "clock", "logs", "protocol", "columns", "security"},
    "coordinator": {"errors", "clock", "incidents", "logs", "protocol", "assignors", "columns", "security"},
    "replication": {"errors", "clock", "protocol"},
    "metadata": {"errors", "replication", "security"},
    "client": {"errors", "clock", "terminal", "texts", "logs", "protocol", "assignors", "security"},
    "inspect": {"errors", "clock", "terminal", "texts", "protocol"},
    "zookeeper": {"clock", "errors", "installation", "logs", "replication", "metadata", "security"},
    "broker": {
        "errors",
        "clock",
        "installation",
        "incidents",
        "terminal",
        "texts",
        "logs",
        "memory",
        "protocol",
        "columns",
        "security",
        "storage",
        "coordinator",
        "replication",
        "metadata",
        "client",
        "zookeeper",
    },
    "testing": {
        "errors",
        "clock",
        "incidents",
        "diagnosis",
        "lag",
        "logs",
        "protocol",
        "storage",
        "assignors",
        "coordinator",
        "replication",
        "metadata",
        "client",
        "broker",
        "spark",
        "__init__",
        "security",
    },
    "http": {
        "errors",
        "clock",
        "diagnosis",
        "lag",
        "logs",
        "protocol",
        "inspect",
        "broker",
        "testing",
        "__init__",
    },
    "spark": {
        "errors",
        "clock",
        "lag",
        "logs",
        "memory",
        "protocol",
        "columns",
        "storage",
        "coordinator",
        "client",
    },
}
"""What each part may import of the others. The tops, and they alone, may import everything."""

TOPS = ("cli", "commands", "__init__", "__main__")

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


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements of a file, and not their expressions, which are most of it."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


def imports_of(tree: ast.Module, path: Path, root: Path = PACKAGE) -> Iterator[Import]:
    """Yield every import of a file, also those inside functions and under TYPE_CHECKING."""
    module = path.relative_to(root).with_suffix("").parts
    for node in statements(tree):
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


class Read(NamedTuple):
    """What was read from a module of the package.

    imports  all of them
    loaded   what it imports when it is itself imported
    """

    imports: list[Import]
    loaded: list[str]


@cache
def all_modules() -> dict[Path, Read]:
    """Read every module, once and for the first test that asks, not while tests are collected."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules[path] = Read(list(imports_of(tree, path)), list(loaded_by(tree.body)))
    return modules


def all_imports() -> list[Import]:
    """Return every import of the package."""
    return [found for module in all_modules().values() for found in module.imports]


def nodes_with(word: str, folder: Path = PACKAGE) -> Iterator[tuple[Path, ast.AST]]:
    """Yield the syntax of the files that have a word in their text: parsing all of them takes a second."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if word in text:
            yield from ((path, node) for node in ast.walk(ast.parse(text)))


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


def test_a_module_imports_only_what_is_below_it() -> None:
    offending = []
    for found in all_imports():
        part = imported_part(found)
        if found.part in TOPS or part is None or part == found.part:
            continue
        if part not in MAY_IMPORT[found.part]:
            offending.append(found)
    assert not offending, report(offending)


def test_classic_groups_know_nothing_of_consumer_groups() -> None:
    classic = [found for found in all_imports() if found.module[:2] == ("coordinator", "classic")]
    offending = [found for found in classic if found.name.startswith("kafka_offsets.coordinator.consumer")]
    assert classic and not offending, report(offending)


def test_every_logger_escapes_what_clients_choose() -> None:
    making = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path, node in nodes_with("getLogger")
        if isinstance(node, ast.Attribute) and node.attr == "getLogger" and path.name != "logs.py"
    ]
    assert not making, "\n".join(making)


def test_every_part_of_the_package_has_its_place_in_the_layers() -> None:
    parts = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert parts <= {*MAY_IMPORT, *TOPS}


@pytest.mark.parametrize("part", ["protocol", "coordinator", "replication", "metadata", "diagnosis"])
def test_a_pure_part_imports_nothing_that_has_effects(part: str) -> None:
    offending = [found for found in all_imports() if found.part == part and found.package in EFFECTS]
    assert not offending, report(offending)


def test_only_what_serves_knows_asyncio() -> None:
    offending = [
        found
        for found in all_imports()
        if found.part == "broker"
        and found.package == "asyncio"
        and found.module[1] not in ("network", "nodes")
    ]
    assert not offending, report(offending)


def test_only_what_runs_a_broker_knows_the_core() -> None:
    """Handlers and services receive a Context or single parts of a broker."""
    core = [found for found in all_imports() if found.name.startswith("kafka_offsets.broker.core.core")]
    homes = (("broker", "network"), ("broker", "nodes"), ("testing",))
    offending = [found for found in core if not any(found.module[: len(home)] == home for home in homes)]
    assert core and not offending, report(offending)


@pytest.mark.parametrize(
    ("package", "home"),
    [
        ("construct", {"inspect"}),
        ("pyspark", {"spark", "commands"}),
        ("pyarrow", {"spark"}),
        ("kazoo", {"zookeeper"}),
        ("cryptography", {"security", "testing"}),
        ("jwt", {"security"}),
        ("hypothesis", {"testing"}),
        ("starlette", {"http"}),
        ("uvicorn", {"http"}),
    ],
)
def test_a_heavy_package_is_imported_in_one_place(package: str, home: set[str]) -> None:
    offending = [found for found in all_imports() if found.package == package and found.part not in home]
    assert not offending, report(offending)


def test_numpy_is_imported_by_columns_and_spark_alone() -> None:
    offending = [
        found
        for found in all_imports()
        if found.package == "numpy" and found.part not in ("columns", "spark")
    ]
    assert not offending, report(offending)


def loaded_by(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a module imports when it is itself imported: not in functions, nor under TYPE_CHECKING."""
    for node in body:
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(base, names):
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.ClassDef() | ast.Try() | ast.With():
                yield from loaded_by(node.body)
            case ast.If(ast.Name("TYPE_CHECKING")):
                yield from loaded_by(node.orelse)
            case ast.If():
                yield from loaded_by([*node.body, *node.orelse])


def test_what_needs_numpy_is_imported_where_it_is_needed() -> None:
    loaded: dict[str, set[str]] = {}
    for path, module in all_modules().items():
        names = module.loaded
        targets = {"numpy" if name.partition(".")[0] == "numpy" else module_of(name) for name in names}
        loaded[path.relative_to(PACKAGE).with_suffix("").as_posix()] = {
            target for target in targets if target is not None
        }
    needing = {"numpy"}
    while more := {module for module, targets in loaded.items() if targets & needing} - needing:
        needing |= more
    outside = {name for name in needing if name.partition("/")[0] not in ("numpy", "columns", "spark")}
    assert outside == DOORS_TO_COLUMNS


DOORS_TO_COLUMNS = {"storage/segments/segment_columns", "coordinator/column_loader"}
"""Modules that cannot be imported without numpy. Others import them, and the room `columns`, inside a function."""


def test_schema_files_are_found_by_one_module() -> None:
    mentioning = {
        path.relative_to(PACKAGE).as_posix()
        for path, node in nodes_with("schema")
        if isinstance(node, ast.Constant) and node.value in ("schemas", "*.schema")
    }
    assert mentioning - {"http/openapi.py"} == {"schema_files.py"}  # OpenAPI has a key of that name


@pytest.mark.parametrize("part", ["protocol", "coordinator", "replication", "metadata", "diagnosis"])
def test_a_pure_part_opens_no_files(part: str) -> None:
    """BytesIO is memory that grows, not a file."""
    of_part = [found for found in all_imports() if found.part == part and found.name != "io.BytesIO"]
    opening = [f"{found}" for found in of_part if found.package in ("pathlib", "io")]
    opening += [
        f"{path.relative_to(REPOSITORY)}:{node.lineno} calls open"
        for path, node in nodes_with("open", PACKAGE / part)
        if isinstance(node, ast.Name) and node.id == "open"
    ]
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
    assert [found.name for found in imports_of(ast.parse(source), path, tmp_path)] == [name]


# --- import circles


KNOWN_CIRCLES: set[frozenset[str]] = set()
"""Circles of imports that still exist. The list may only shrink."""


@cache
def module_of(name: str) -> str | None:
    """Return the file of this package that has a name such as `kafka_offsets.errors.ErrorCode`, without `.py`."""
    parts = name.split(".")
    if parts.pop(0) != "kafka_offsets":
        return None
    while parts:
        module = "/".join(parts)
        if (PACKAGE / f"{module}.py").is_file():
            return module
        if (PACKAGE / module / "__init__.py").is_file():
            return f"{module}/__init__"
        parts.pop()
    return "__init__"


def circles_of(imported: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules in which each imports each other one, directly or not."""

    def reached(module: str) -> set[str]:
        found: set[str] = set()
        waiting = [module]
        while waiting:
            new = imported.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    reachable = {module: reached(module) for module in imported}
    return {
        frozenset(other for other in reachable[module] if module in reachable.get(other, ()))
        for module in imported
        if module in reachable[module]
    }


def test_no_modules_import_each_other_in_a_circle() -> None:
    imported: dict[str, set[str]] = {}
    for found in all_imports():
        module, target = "/".join(found.module), module_of(found.name)
        if target not in (None, module):
            imported.setdefault(module, set()).add(str(target))
    circles = circles_of(imported)
    new = [
        f"{module} imports {sorted(imported[module] & circle)}, in a circle of {len(circle)}"
        for circle in circles
        if not any(circle <= known for known in KNOWN_CIRCLES)
        for module in sorted(circle)
    ]
    assert not new, "\n".join(new)
    gone = [sorted(known) for known in KNOWN_CIRCLES if not any(circle <= known for circle in circles)]
    assert not gone, f"these circles no longer exist, take them off the list: {gone}"


@pytest.mark.parametrize(
    ("imported", "circles"),
    [
        ({"a": {"b"}, "b": {"c"}}, set()),
        ({"a": {"b"}, "b": {"a", "c"}}, {"ab"}),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}}, {"abc", "de"}),
    ],
)
def test_circles_are_found(imported: dict[str, set[str]], circles: set[str]) -> None:
    assert circles_of(imported) == {frozenset(circle) for circle in circles}


# --- rooms

FACE = ""
"""The modules of a folder itself: above its rooms, where its order does not say otherwise."""

ORDER = {
    "broker": (
        "turn",
        "config",
        "wire",
        "partition",
        "groups",
        "offset_manager",
        "access",
        "context",
        "api",
        "replicas",
        "gates",
        "cluster",
        "core",
        "network",
        "nodes",
    ),
    "client": (FACE, "consumer", "admin_requests"),
    "commands": ("lifetime", "options", "output", "acls", "groups", "cluster", "records"),
    "coordinator": ("state", "transactions", "classic", "consumer", "offsets"),
    "protocol": ("codecs", FACE, "mirroring"),
    "security": (FACE, "sasl"),
    "spark": ("reader", "pipelines"),
    "storage": ("files", "segments", "log", "cleaner", "directory", "repair"),
    "testing": ("faults", "contents", "server", "cluster"),
}
"""The rooms of each folder that has some, bottom to top: none imports a higher one, not even a type."""


def room_of(module: str, folder: str) -> str | None:
    """Return the room of a module in a folder, which is the folder itself for its own modules."""
    parts = module.split("/")
    if parts[: folder.count("/") + 1] != folder.split("/"):
        return None
    rest = parts[folder.count("/") + 1 :]
    return rest[0] if len(rest) > 1 else FACE


def test_no_room_imports_a_higher_one() -> None:
    folders = {
        path.parent.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/**/__init__.py")
    } - {"."}
    assert folders == ORDER.keys()
    offending = []
    for found in all_imports():
        module, target = "/".join(found.module), module_of(found.name)
        for folder, order in ORDER.items():
            room, other = room_of(module, folder), room_of(str(target), folder)
            if room is None or other is None or room == other or module == f"{folder}/__init__":
                continue
            heights = {name: height for height, name in enumerate(order if FACE in order else (*order, FACE))}
            if heights[other] > heights[room]:
                offending.append(found)
    assert not offending, report(offending)


MOST_MODULES = 16


def test_a_folder_has_few_modules_and_says_what_it_is_about() -> None:
    wrong = []
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        if len(modules) > MOST_MODULES:
            wrong.append(
                f"{folder.relative_to(REPOSITORY)} has {len(modules)} modules, {MOST_MODULES} at most"
            )
        text = (folder / "__init__.py").read_text(encoding="utf-8")
        if not ast.get_docstring(ast.parse(text)):
            wrong.append(f"{folder.relative_to(REPOSITORY)}/__init__.py has no docstring")
    assert not wrong, "\n".join(wrong)


# --- paths in texts

ROOTS = (
    ".ci",
    "benchmarks",
    "docs",
    "examples",
    "kafka_offsets",
    "pyspark_kafka_offsets",
    "schemas",
    "tests",
)
PAGES = ("README.md", "CHANGES.md", "CONTRIBUTING.md", "Makefile", "setup.cfg")
ABOUT_OTHER_PROJECTS = "docs/suites.md"
NAMED = re.compile(r"(?<![\w./<>*{}$~…-])(?:\.\./)*((?:[\w.-]+/)*[\w-]+\.(?:py|pyi|md|schema))(?![\w/*-])")
"""A path, or the name of a file; what begins with a pattern such as `*` or `<name>` is none."""


def files_of_the_repository() -> set[str]:
    """Return the paths of all files that a text may name."""
    found = {path for root in ROOTS for path in (REPOSITORY / root).rglob("*") if path.is_file()}
    found |= {path for path in REPOSITORY.iterdir() if path.is_file()}
    return {path.relative_to(REPOSITORY).as_posix() for path in found}


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of the comments and docstrings of a module, with their numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from enumerate(text.splitlines(), node.lineno)


def missing_files(path: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every file that the prose of a file names and that is not known."""
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    if not known.issuperset(
        NAMED.findall(text)
    ):  # tokens are slow: only of files with a name that is not known
        lines = prose_of(text) if path.endswith(".py") else enumerate(text.splitlines(), 1)
        for number, line in lines:
            for match in NAMED.finditer(line):
                if match[1] not in known:
                    yield number, match[1]


def test_every_file_that_a_text_names_exists() -> None:
    files = files_of_the_repository()
    ends = {"/".join(parts[at:]) for parts in (file.split("/") for file in files) for at in range(len(parts))}
    texts = [
        file
        for file in sorted(files)
        if file.endswith((".py", ".schema"))
        or file in PAGES
        or (file.startswith("docs/") and file.endswith(".md"))
    ]
    wrong = [
        f"{text}:{number} names {name}, which does not exist"
        for text in texts
        if text != ABOUT_OTHER_PROJECTS
        for number, name in missing_files(text, ends)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_context_of_a_broker_is_called_broker_and_stays_small() -> None:
    """`context` is the context of a request. What belongs together in a broker has one field."""
    named = {
        f"{path.relative_to(PACKAGE)}: {found[0]}"
        for path in PACKAGE.rglob("*.py")
        for found in re.finditer(r"\b(\w+): \"?Context\b", path.read_text())
        if found[1] != "broker"
    }
    assert named == set()
    assert len(dataclasses.fields(Context)) <= 20
