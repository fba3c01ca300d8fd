"""How `make docs` reads docstrings and the pages outside docs/."""

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def extensions() -> Iterator[dict[str, ModuleType]]:
    """The modules of docs/_ext, by name."""
    folder = str(REPOSITORY / "docs" / "_ext")
    sys.path.insert(0, folder)
    yield {
        name: importlib.import_module(name) for name in ("plain_docstrings", "outside_pages", "language_tabs")
    }
    sys.path.remove(folder)


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (["Read `topic`, or ``all``."], ["", "Read ``topic``, or ``all``.", "", ""]),
        (
            ["A *star and snake_case and tail_ here"],
            ["", "A \\*star and snake_case and tail\\_ here", "", ""],
        ),
        (
            ["topic  of which it", "       is read", "Raises ValueError."],
            ["topic", "    of which it is read", "", "Raises ValueError.", "", ""],
        ),
        (["  as it", "    stands"], ["::", "", "      as it", "        stands", ""]),
        (["Types are ``a  b`` and", "no columns."], ["", "Types are ``a  b`` and no columns.", "", ""]),
    ],
    ids=["code", "no markup", "columns", "literal", "columns within code"],
)
def test_a_docstring_is_plain_text_with_columns(
    extensions: dict[str, ModuleType], docstring: list[str], expected: list[str]
) -> None:
    assert extensions["plain_docstrings"].convert(docstring) == expected


@pytest.mark.parametrize(
    ("link", "folder", "expected"),
    [
        ("[a](docs/faults.md#time)", "", "[a](faults.md#time)"),
        ("[a](../CONTRIBUTING.md#style)", "docs", "[a](contributing.md#style)"),
        ("[a](../README.md)", "docs", "[a](index.md)"),
        ("[tests](../tests)", "docs", "`tests`"),
        ("[the format](schemas/headers.schema)", "", "the format (`schemas/headers.schema`)"),
        ("[here](#time)", "docs", "[here](#time)"),
        ("[there](https://kafka.apache.org)", "docs", "[there](https://kafka.apache.org)"),
    ],
)
def test_links_lead_from_where_the_pages_are(
    extensions: dict[str, ModuleType], link: str, folder: str, expected: str
) -> None:
    assert extensions["outside_pages"].rewritten(link, REPOSITORY / folder) == expected


def test_headings_between_two_comments_are_tabs(extensions: dict[str, ModuleType]) -> None:
    page = """\
# A page

<!-- tabs: language -->
### Java

Text.

```java
# No heading.
```

### Node.js

More.
<!-- end tabs -->

### Not a tab
"""
    assert (
        extensions["language_tabs"].tabbed(page)
        == """\
# A page


``````{tab-set}
:sync-group: language

`````{tab-item} Java
:sync: Java

Text.

```java
# No heading.
```
`````

`````{tab-item} Node.js
:sync: Node.js

More.
`````

``````

### Not a tab
"""
    )


def test_every_mark_of_tabs_makes_tabs(extensions: dict[str, ModuleType]) -> None:
    made = {}
    for page in (REPOSITORY / "docs").glob("*.md"):
        text = extensions["language_tabs"].tabbed(page.read_text(encoding="utf-8"))
        assert "<!-- tabs" not in text and "<!-- end tabs" not in text, page
        made[page.stem] = re.findall(r"^`+\{tab-item\} (.+)$", text, re.MULTILINE)
    assert made["index"] == ["Python", "Java", "Go", "Node.js"]
    assert made["clients"][-3:] == made["index"][1:], "the choice is kept from page to page"


@pytest.mark.parametrize(
    "page", sorted((REPOSITORY / "docs" / "api").glob("*.md")), ids=lambda page: page.stem
)
def test_the_pages_of_the_api_link_to_the_guides(extensions: dict[str, ModuleType], page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    guides = re.findall(r"\]\(\.\./([\w-]+\.md)", text)
    made = extensions["outside_pages"].rewritten(text, page.parent, page.parent)
    assert re.findall(r"\]\(\.\./([\w-]+\.md)", made) == guides


def test_the_api_has_links_to_guides() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs" / "api").glob("*.md")]
    assert sum(text.count("](../") for text in texts) >= 7


def test_what_the_site_does_without_is_mocked() -> None:
    """The extra `docs` alone is enough: what Spark's modules import of others is installed, or mocked."""
    given: dict[str, Any] = {"__file__": str(REPOSITORY / "docs" / "conf.py")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        patch.setattr(sys, "path", sys.path.copy())
        exec((REPOSITORY / "docs" / "conf.py").read_text(encoding="utf-8"), given)
    setup = ConfigParser()
    setup.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    lines = setup["options"]["install_requires"] + setup["options.extras_require"]["docs"]
    extra = {re.split(r"[ >=\[]", line)[0] for line in lines.strip().splitlines()} | {
        "markupsafe"
    }  # of jinja2
    loaded = {
        name.partition(".")[0]
        for path in (REPOSITORY / "kafka_offsets" / "spark").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    others = loaded - sys.stdlib_module_names - {"kafka_offsets"}
    assert others - extra <= {*given["autodoc_mock_imports"]}


def test_every_page_is_in_the_index() -> None:
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8").split()
    pages = Path(REPOSITORY / "docs").rglob("*.md")
    names = {page.relative_to(REPOSITORY / "docs").with_suffix("").as_posix() for page in pages}
    assert names - {"index"} <= set(index)


def test_no_two_pages_of_the_sidebar_have_one_title() -> None:
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [
        name
        for part in re.findall(r"^```\{toctree\}\n(.*?)^```$", index, re.MULTILINE | re.DOTALL)
        for name in part.split("\n")
        if name and not name.startswith(":")
    ]
    titles = [
        (REPOSITORY / "docs" / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0] for name in pages
    ]
    assert len(pages) > 30
    assert [title for title, count in Counter(titles).items() if count > 1] == []
