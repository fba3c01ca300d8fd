"""The documents cannot rot: tables are printed from the code, links lead somewhere. tests/documents runs snippets."""

import inspect
import pkgutil
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.broker import turn
from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from tests.cases import each_case
from tests.conftest import REPOSITORY, GeneratedPart
from tests.interop import matrix

README = REPOSITORY / "README.md"
CLIENTS_PAGE = REPOSITORY / "docs" / "clients.md"
WITH_ACTIONS = ("groups", "offsets", "spark")
PAGES = [
    README,
    REPOSITORY / "CHANGES.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
]

_LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def test_make_help_lists_every_target() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    printed = subprocess.run(
        ["make", "--no-print-directory", "help"], capture_output=True, text=True, check=True, cwd=REPOSITORY
    ).stdout
    listed = [line.split()[0] for line in printed.splitlines() if line and not line.startswith(" ")]
    assert sorted(listed) == sorted(phony.split())


def test_the_table_of_threads_has_those_of_the_code() -> None:
    table = inspect.getdoc(turn)
    assert table is not None
    code = [each.read_text(encoding="utf-8") for each in (REPOSITORY / "kafka_offsets").rglob("*.py")]
    named = re.compile(r'(?:name|thread_name_prefix)="(kafka-offsets[\w-]*)"')
    started = {name for text in code for name in named.findall(text)}
    assert started == set(re.findall(r"^(kafka-offsets[\w-]*)  ", table, re.MULTILINE))


@each_case("page", PAGES, ids=lambda page: page.name)
def test_the_make_targets_that_are_named_exist(page: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^\$ |`)make ([a-z][\w-]*)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


@cache
def show_help(*words: str) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([*words, "--help"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_modules_commands_and_folders_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"`(kafka_offsets(?:\.\w+)*)", text)):
        pkgutil.resolve_name(name)
    commands = re.findall(
        r"(?:^\$ |`)kafka-offsets ([a-z]+)(?: ([a-z][a-z-]+)\b(?![.=/]))?", text, re.MULTILINE
    )
    for command, action in set(commands):
        show_help(command, *([action] if command in WITH_ACTIONS and action else []))
    for folder in set(
        re.findall(r"`((?:benchmarks|docs|examples|kafka_offsets|schemas|tests)/[\w/]+)`", text)
    ):
        assert (REPOSITORY / folder).is_dir(), f"{page.name} names {folder}"


def served_versions(api: Api) -> str:
    """Return the versions that are advertised and have a schema."""
    known = api.request.SCHEMA.versions
    first, last = max(api.min_version, known.first), min(api.max_version, known.last)
    return f"{first}" if first == last else f"{first}-{last}"


def test_the_table_of_apis_is_that_of_the_code(generated: GeneratedPart) -> None:
    rows = ["| key | API | versions |", "|---|---|---|"]
    rows += [f"| {api.key} | {api.name} | {served_versions(api)} |" for api in SERVED]
    generated.check("docs/apis.md", "apis", "\n".join(rows))


def test_the_table_of_clients_has_a_test_or_a_reason_for_each_cell(generated: GeneratedPart) -> None:
    cells = matrix.shown(REPOSITORY / "tests").keys()
    expected = {(client, feature) for client in matrix.CLIENTS for feature in matrix.FEATURES}
    assert expected - matrix.ABSENT.keys() == cells, "a cell has lost its test, or a mark names no cell"
    generated.check("docs/clients.md", "clients", matrix.table(set(cells)))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_case("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_or_a_heading(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGES.md", "setup.cfg"])
def test_no_address_is_named_that_nobody_has_published(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    assert not re.findall(r"github\.com/kafka-offsets\S*", text)
    assert not re.search(r"^\[[\w-]+\]: ", text, re.MULTILINE), "links are [text](path), which is checked"


def test_the_readme_is_short_and_names_the_commands_of_a_clone() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert "`make run`" in text and "`make test`" in text


def test_the_stored_commit_of_the_format_page_is_what_is_written(generated: GeneratedPart) -> None:
    entry = OffsetAndMetadata(42, 3, "note", 1_700_000_000_000, -1, bytes(range(16)))
    record = stored.offset_record("billing", "orders", 0, entry)
    assert record.value is not None
    key = [("type", 2), ("group", 9), ("topic", 8), ("partition", 4)]
    value = [("version", 2), ("offset", 8), ("leader epoch", 4), ("metadata", 5), ("commit timestamp", 8)]
    value += [("tagged field 0", 3), ("topic id", 16)]
    lines = []
    for name, data, fields in (("key", record.key, key), ("value", record.value, value)):
        assert sum(size for _, size in fields) == len(data)
        position = 0
        for field, size in fields:
            lines.append(f"    {name:<7}{position:>2}  {data[position : position + size].hex():<34}{field}")
            position += size
    generated.check(
        "docs/log-format.md", "stored commit", "```text\n" + "\n".join(line[4:] for line in lines) + "\n```"
    )
