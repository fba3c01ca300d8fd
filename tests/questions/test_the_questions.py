"""Ten questions of users: each says where it was asked, is in docs/recipes.md, and takes at most fifteen lines."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

MOST_LINES = 15
QUESTIONS = sorted(
    path for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name
)
_ASKED = re.compile(r"Asked in (https://github\.com/[\w-]+/([\w-]+)/(?:issues|pull)/(\d+))\.")


def lines_of(path: Path) -> int:
    """Return how many lines a solution has, without imports, docstrings and empty lines."""
    text = path.read_text(encoding="utf-8")
    told = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if line.strip() and number not in told)


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_a_question_is_answered_in_few_lines(path: Path) -> None:
    assert lines_of(path) <= MOST_LINES


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_a_question_says_where_it_was_asked(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = _ASKED.search(docstring)
    assert found is not None
    project = found[2].replace("-", "_").lower()
    assert path.stem == f"test_{project}_{found[3]}"
    recipes = (REPOSITORY / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert found[1] in recipes
    assert f"../tests/questions/{path.name}" in recipes
