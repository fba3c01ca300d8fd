"""Headings that say the same thing for several languages or clients, as tabs of the site.

In a clone, and on a Git host, they are headings like all others. Comments mark where they begin and end:

    <!-- tabs: language -->
    ### Java
    ### Go
    <!-- end tabs -->

Each heading between them becomes a tab. The word after `tabs:` is what the reader chooses. The choice is kept from page
to page, for all tabs of this word that have the same heading.
"""

import re
from itertools import pairwise
from typing import Any

_TABS = re.compile(r"^<!-- tabs: (\w+) -->\n(.*?)^<!-- end tabs -->$", re.MULTILINE | re.DOTALL)
_CODE_OR_HEADING = re.compile(r"^```.*?^```$|^#+ (?P<label>[^\n]+)\n", re.MULTILINE | re.DOTALL)


def tabbed(text: str) -> str:
    """Return a page whose marked headings are tabs."""
    return _TABS.sub(lambda found: _tab_set(found[1], found[2]), text)


def _tab_set(choice: str, part: str) -> str:
    headings = [found for found in _CODE_OR_HEADING.finditer(part) if found["label"]]
    ends = [found.start() for found in headings] + [len(part)]
    lines = [part[: ends[0]], f"``````{{tab-set}}\n:sync-group: {choice}\n"]
    for found, (_, end) in zip(headings, pairwise(ends), strict=True):
        label, content = found["label"], part[found.end() : end].strip()
        lines.append(f"`````{{tab-item}} {label}\n:sync: {label}\n\n{content}\n`````\n")
    return "\n".join([*lines, "``````"])


def _read(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = tabbed(source[0])


def setup(app: Any) -> dict[str, Any]:
    """Have Sphinx ask."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
