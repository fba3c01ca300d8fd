"""docs/troubleshooting.md: the messages in its headings are messages of the code."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)

_FORMAT = re.compile(r"%(?:\.\d+)?[sdrgf]")


def templates() -> Iterator[str]:
    """Yield every text in the code, with … for what is filled in, and whole where it is in pieces."""
    for path in (REPOSITORY / "kafka_offsets").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield _FORMAT.sub("…", node.value)
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
                )


@pytest.fixture(scope="module")
def code() -> str:
    return "\n".join(templates())


def test_there_are_messages() -> None:
    assert len(MESSAGES) >= 18


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_has_the_message(message: str, code: str) -> None:
    pieces = [piece.strip() for piece in message.split("…")]
    for piece in pieces:
        assert len(piece) < 4 or piece in code, piece
    assert max(map(len, pieces)) >= 8, "too little of it is the same each time"
