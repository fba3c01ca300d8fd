"""CONTRIBUTING.md and CHANGES.md as pages, and links to files of the source that are no pages.

They are at the top of the project, where most people read them. `contributing.md` and `changes.md` in this folder only
give them a place among the pages; the first page replaces the README. A link to a file that is not a page, such as a
test, becomes the path of the file, since the pages may be read without the source. tests/test_documents.py checks that
the file exists.
"""

import os
import re
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGES.md": "changes.md"}

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:)([^)#\s]*)(#[^)]*)?\)")


def rewritten(text: str, folder: Path, place: Path = TOP / "docs") -> str:
    """Return a page, whose links lead from `folder`, with links that lead from the folder of the site that it is in."""

    def link(found: re.Match[str]) -> str:
        name, target, anchor = found[1], found[2], found[3] or ""
        if not target:
            return found[0]
        path = (folder / target).resolve().relative_to(TOP)
        if str(path) in PAGES:
            return f"[{name}]({_from(TOP / 'docs' / PAGES[str(path)], place)}{anchor})"
        if path.parts[0] == "docs" and path.suffix == ".md":
            return f"[{name}]({_from(TOP / path, place)}{anchor})"
        return f"`{path}`" if name.strip("`/") == str(path) else f"{name} (`{path}`)"

    return _LINK.sub(link, text)


def _from(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _read(_app: Any, page: str, source: list[str]) -> None:
    outside = {made.removesuffix(".md"): name for name, made in PAGES.items() if made != "index.md"}
    if page in outside:
        source[0] = rewritten((TOP / outside[page]).read_text(encoding="utf-8"), TOP)
    else:
        folder = (TOP / "docs" / page).parent
        source[0] = rewritten(source[0], folder, folder)


def _changed(_app: Any, env: Any, _added: Any, _changed: Any, _removed: Any) -> list[str]:
    return [made.removesuffix(".md") for made in PAGES.values()]


def setup(app: Any) -> dict[str, Any]:
    """Have Sphinx ask."""
    app.connect("source-read", _read)
    app.connect("env-get-outdated", _changed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
