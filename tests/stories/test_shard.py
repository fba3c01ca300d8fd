"""tests/stories/offsets_shard.txt is what a shard answers; `pytest --rewrite-stories` writes its answers again."""

import pytest

from tests.conftest import REPOSITORY
from tests.stories.shard import Case, cases, file_of

FILE = REPOSITORY / "tests" / "stories" / "offsets_shard.txt"
CASES = {case.title: case for case in cases(FILE.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def rewritten(request: pytest.FixtureRequest) -> bool:
    """Whether the answers were written again, all at once."""
    if not request.config.getoption("--rewrite-stories"):
        return False
    again = [case._replace(text=case.played()) for case in CASES.values()]
    FILE.write_text(file_of(again), encoding="utf-8")
    return True


@pytest.mark.parametrize("title", CASES)
def test_the_shard_answers_as_the_case_says(title: str, rewritten: bool) -> None:
    if not rewritten:
        assert CASES[title].played() == CASES[title].text, "if that is meant: pytest --rewrite-stories"


def test_each_title_occurs_once() -> None:
    titles = [case.title for case in cases(FILE.read_text(encoding="utf-8"))]
    assert len(titles) == len(set(titles))


def test_a_case_that_says_something_else_differs() -> None:
    case = Case("", "commit group=g topic=t partition=0 offset=42\n----\nreply t-0 NONE\nappend g/t/0 = 43")
    assert case.played() == case.text.replace("43", "42")
