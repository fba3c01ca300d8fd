"""Docstrings as this project writes them, in the markup that Sphinx reads.

They are plain text: paragraphs, names in single backticks, and columns of a name and its meaning:

    topic  of which records are read
    Raises StorageError if the disk refuses.

Columns become a list of definitions, lines that are further in a block of text, and nothing else that a
docstring holds is taken for markup.
"""

import re
from collections.abc import Iterator
from typing import Any

_COLUMNS = re.compile(r"(?P<term>\S(?: ?\S)*) {2,}(?P<meaning>\S.*)")
_CODE = re.compile(r"``(.+?)``|`([^`]+)`")
_MARKUP = re.compile(r"([\\*|])|(_)(?!\w)")


def inline(text: str) -> str:
    """Return a line of text with its code marked and all else that could be markup escaped."""
    parts, end = [], 0
    for found in _CODE.finditer(text):
        parts += [_escaped(text[end : found.start()]), f"``{found[1] or found[2]}``"]
        end = found.end()
        if text[end : end + 1].isalnum():
            parts.append("\\ ")
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: "\\" + found[0], text)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def convert(lines: list[str]) -> list[str]:
    """Return a docstring, its lines without the common indentation, as reStructuredText."""
    made: list[str] = []
    for block in _blocks(lines):
        if all(line.startswith("  ") for line in block):
            made += ["::", "", *(f"    {line}" for line in block), ""]
        else:
            made += _block(block)
    return made


def _block(block: list[str]) -> list[str]:
    """Return one block: a paragraph, columns, or one after the other."""
    pieces: list[tuple[str, list[str]]] = []  # a term, "" for text, and the lines that belong to it
    for line in block:
        found = None if line.startswith(" ") else _COLUMNS.fullmatch(line)
        if found and len(re.findall("`+", found["term"])) % 2 == 0:  # not within code
            pieces.append((found["term"], [found["meaning"]]))
        elif pieces and (line.startswith(" ") or not pieces[-1][0]):
            pieces[-1][1].append(line.strip())
        else:
            pieces.append(("", [line.strip()]))
    made: list[str] = []
    for term, lines in pieces:
        text = inline(" ".join(lines))
        if term:
            made += [inline(term), f"    {text}"]
        else:
            made += ["", text.removesuffix("::") + ":" * text.endswith("::"), ""]
    return [*made, ""]


def _process(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = convert(lines)


def _skip(_app: Any, _what: str, _name: str, member: Any, skip: bool, _options: Any) -> bool | None:
    """Leave out what NamedTuple says of its fields, and members that say nothing."""
    said = getattr(member, "__doc__", None) or ""
    return True if skip or said.startswith("Alias for field number") else None


def setup(app: Any) -> dict[str, Any]:
    """Have Sphinx ask."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
