"""How large is each room, and what does nobody use? `python -m tests.test_ratchet` prints the rooms of today."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from kafka_offsets.diagnosis.rules import RULES
from tests.conftest import REPOSITORY

CEILINGS = {
    "kafka_offsets": 1840,
    "kafka_offsets/assignors": 420,
    "kafka_offsets/broker": 20,
    "kafka_offsets/broker/access": 1200,
    "kafka_offsets/broker/api": 6160,
    "kafka_offsets/broker/cluster": 1200,
    "kafka_offsets/broker/config": 3200,
    "kafka_offsets/broker/context": 740,
    "kafka_offsets/broker/core": 1140,
    "kafka_offsets/broker/gates": 820,
    "kafka_offsets/broker/groups": 2720,
    "kafka_offsets/broker/network": 3010,
    "kafka_offsets/broker/nodes": 2100,
    "kafka_offsets/broker/offset_manager": 1340,
    "kafka_offsets/broker/partition": 3020,
    "kafka_offsets/broker/replicas": 1320,
    "kafka_offsets/broker/turn": 500,
    "kafka_offsets/broker/wire": 1440,
    "kafka_offsets/client": 6420,
    "kafka_offsets/columns": 2540,
    "kafka_offsets/commands": 6780,
    "kafka_offsets/coordinator": 9520,
    "kafka_offsets/diagnosis": 1200,
    "kafka_offsets/http": 2260,
    "kafka_offsets/inspect": 1960,
    "kafka_offsets/metadata": 2300,
    "kafka_offsets/protocol": 4640,
    "kafka_offsets/replication": 1020,
    "kafka_offsets/security": 2420,
    "kafka_offsets/spark": 7220,
    "kafka_offsets/storage": 8780,
    "kafka_offsets/testing": 9160,
    "kafka_offsets/zookeeper": 2260,
    "tests": 5650,
    "tests/broker": 20,
    "tests/broker/access": 2190,
    "tests/broker/api": 4500,
    "tests/broker/config": 1560,
    "tests/broker/core": 2040,
    "tests/broker/gates": 1460,
    "tests/broker/groups": 2920,
    "tests/broker/network": 2330,
    "tests/broker/nodes": 2280,
    "tests/broker/offset_manager": 1480,
    "tests/broker/partition": 3620,
    "tests/broker/replicas": 1540,
    "tests/broker/turn": 380,
    "tests/broker/wire": 420,
    "tests/claims": 3620,
    "tests/client": 6550,
    "tests/columns": 340,
    "tests/coordinator": 20,
    "tests/coordinator/classic": 1500,
    "tests/coordinator/consumer": 2600,
    "tests/coordinator/offsets": 880,
    "tests/coordinator/state": 1320,
    "tests/coordinator/transactions": 340,
    "tests/diagnosis": 850,
    "tests/differential": 2420,
    "tests/documents": 1740,
    "tests/drivers": 2200,
    "tests/generators": 140,
    "tests/http": 2820,
    "tests/inspect": 1840,
    "tests/interop": 9950,
    "tests/metadata": 1380,
    "tests/mutation": 720,
    "tests/processes": 1620,
    "tests/properties": 1400,
    "tests/protocol": 2420,
    "tests/questions": 280,
    "tests/replication": 2600,
    "tests/security": 980,
    "tests/simulation": 8140,
    "tests/spark": 6700,
    "tests/storage": 340,
    "tests/storage/cleaner": 1140,
    "tests/storage/crash": 2960,
    "tests/storage/directory": 1200,
    "tests/storage/files": 560,
    "tests/storage/log": 2280,
    "tests/storage/repair": 540,
    "tests/storage/segments": 700,
    "tests/stories": 4420,
    "tests/suites": 1040,
    "tests/testing": 9120,
    "tests/walks": 3880,
    "tests/zookeeper": 2470,
}
"""The most lines of Python that each room may have. The commit that raises one says why; one that cuts lowers it."""

DIVIDED = (
    "kafka_offsets",
    "kafka_offsets/broker",
    "tests",
    "tests/broker",
    "tests/coordinator",
    "tests/storage",
)
"""Folders of which each folder is a room. The modules of such a folder itself are one room more."""

ALLOWED = {
    "range_text": "prints docs/configuration.md, which tests write",
    **dict.fromkeys(
        ("get_container_host_ip", "get_container_id", "with_bind_ports", "with_cluster_id", "with_envs"),
        "belongs to the interface of testcontainers' KafkaContainer",
    ),
    "write_pkcs12": "makes the PKCS12 stores of tests with clients in Java, beside `write_certificate`",
}
"""Definitions that only tests call, with the reason."""

CALLED_BY_NAME = re.compile(r"__\w+__|pytest_\w+|_make_\w+|_missing_|_(?:openapi|\w+_metrics|healthz|readyz)")
"""What frameworks call, and what is found by `getattr`: columns of Spark, routes of HTTP."""

DEFINITION = re.compile(r"^[ ]*(?:async def|def|class) (\w+)|^(_?[A-Z][A-Z0-9_]+)(?: = |: )", re.MULTILINE)
PROSE = re.compile(r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*"""|^\s*#.*|\s\s#\s.*', re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w+")
CODE_IN_PAGES = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
LISTED = re.compile(r"automodule:: (\S+)\n(?!   :(?:no-)?members:)")


def room_of(path: Path) -> str:
    """Return the room of a file: the nearest folder inside a divided one."""
    folder = path.parent.relative_to(REPOSITORY)
    for parent in (folder, *folder.parents):
        if str(parent) in DIVIDED or str(parent.parent) in DIVIDED:
            return str(parent)
    raise AssertionError(path)


def lines_of_rooms() -> Counter[str]:
    """Return how many lines of Python each room has."""
    lines: Counter[str] = Counter()
    for path in (path for root in ("kafka_offsets", "tests") for path in (REPOSITORY / root).rglob("*.py")):
        if path.name != Path(__file__).name:
            lines[room_of(path)] += path.read_bytes().count(b"\n")
    return lines


def test_no_room_grows_without_a_word() -> None:
    wrong = [
        f"{room} has {lines} lines, {CEILINGS.get(room, 0)} at most: the commit that raises it in "
        f"tests/test_ratchet.py says why"
        for room, lines in sorted(lines_of_rooms().items())
        if lines > CEILINGS.get(room, 0)
    ]
    gone = [
        f"{room} does not exist: take it off the list" for room in CEILINGS.keys() - lines_of_rooms().keys()
    ]
    assert not wrong + gone, "\n".join(wrong + gone)


def code_of(text: str) -> str:
    """Return a module's text without its comments and docstrings."""
    return PROSE.sub("", text)


@cache
def words_of_code() -> Counter[str]:
    """Count the words of all code that may use the package, templates of pages too. Tests do not count."""
    words: Counter[str] = Counter()
    for root in ("kafka_offsets", "benchmarks", "examples", "pyspark_kafka_offsets"):
        for path in (REPOSITORY / root).rglob("*.*"):
            if path.suffix in (".py", ".html"):
                words.update(WORD.findall(code_of(path.read_text(encoding="utf-8"))))
    return words


def public_in(text: str) -> list[str]:
    """Return the functions, classes and methods that a page of docs/api prints of a module."""
    return [name for name, _ in DEFINITION.findall(code_of(text)) if name and name[0] != "_"]


def documented() -> set[str]:
    """Return the words in code of README.md and docs/, those of the entry points, and what docs/api lists whole."""
    pages = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.md")]
    pages.append((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    texts = [span for page in pages for span in CODE_IN_PAGES.findall(page)]
    texts.append((REPOSITORY / "setup.cfg").read_text(encoding="utf-8"))
    for module in LISTED.findall("".join(pages)):
        path = REPOSITORY / f"{module.replace('.', '/')}.py"
        texts += public_in(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {word for text in texts for word in WORD.findall(text)}


def overriding(text: str, classes: set[str]) -> set[str]:
    """Return the methods of classes with a base from outside the package, which may be what calls them."""
    return {
        method.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).partition("[")[0] not in classes for base in node.bases)
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def unused(texts: dict[str, str], words: Counter[str], known: set[str]) -> list[str]:
    """Return the definitions of modules whose name stands nowhere but where they are defined."""
    names = {path: [a or b for a, b in DEFINITION.findall(code_of(text))] for path, text in texts.items()}
    defined = Counter(name for found in names.values() for name in found)
    classes = {name for name in defined if name[0].isupper()} | {"NamedTuple", "Protocol", "Enum", "IntEnum"}
    found = []
    for path, text in texts.items():
        dead = {name for name in names[path] if words[name] <= defined[name]} - known
        dead = {name for name in dead if not CALLED_BY_NAME.fullmatch(name)}
        found += [f"{path}: {name}" for name in sorted(dead - overriding(text, classes) if dead else dead)]
    return found


def test_every_definition_has_a_use_outside_tests() -> None:
    texts = {
        str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8")
        for path in (REPOSITORY / "kafka_offsets").rglob("*.py")
    }
    rules = {rule.find.__name__ for rule in RULES}  # by the table of their texts
    found = unused(texts, words_of_code(), documented() | ALLOWED.keys() | rules)
    assert not found, "\n".join(found)
    needless = [name for name in ALLOWED if words_of_code()[name] > 1]
    assert not needless, f"these are used: take them off the list: {needless}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def one():\n    pass\nLIMIT = 1\n", ["LIMIT", "one"]),
        ("class Aa:\n    def one(self):\n        two()\n", ["Aa", "one"]),
        ("class Aa(Thread):\n    def run(self): ...\nAa()\n", []),
        ('def one():\n    """Call one, or `one`."""  # one\n', ["one"]),
        ("def one():\n    pass\none()\ndef __getattr__(name): ...\n", []),
    ],
)
def test_a_definition_without_use_is_found(text: str, found: list[str]) -> None:
    words = Counter(WORD.findall(code_of(text)))
    assert unused({"m.py": text}, words, set()) == [f"m.py: {name}" for name in found]


if __name__ == "__main__":
    for room, lines in sorted(lines_of_rooms().items()):
        print(f'    "{room}": {-(-lines // 20) * 20},')
