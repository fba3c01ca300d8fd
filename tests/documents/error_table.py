"""Which API is answered which error code in which situations, from the answers of Apache Kafka in tests/stories.

The recordings are those that tests/differential and tests/stories/test_admin_stories.py compare with this broker's
answers, so that what is told of Kafka is told of it too; where the two differ, nothing is told.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.errors import error_code_of
from tests.differential.stories import exchanged, stored
from tests.differential.test_differential import DIFFERENT
from tests.stories import admin_stories

SHOWN = 4
"""So many situations are named for each error code of an API, those with the fewest other errors first."""

CLOSED = "closed"
_VERSION = re.compile(r"(.*) \(v(\d+)\)")


class Seen(NamedTuple):
    """An error, or that the connection was closed (code None), as an answer to an API in a situation."""

    api: str
    version: int
    code: int | None
    situation: str


def codes(answer: Any) -> Iterator[int]:
    """Yield the error codes that stand anywhere in an answer, NONE apart."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name.endswith("error_code"):
                if value:
                    yield value
            else:
                yield from codes(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from codes(value)


def answers(events: Iterable[list[Any]]) -> Iterator[tuple[str, Any]]:
    """Yield what was asked, such as "OffsetCommit v9", and the answer, as the clients of a situation took them."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for client, what, *request in exchanged(events):
        if request:
            waiting[client].append(what)
        elif what == "waits" or not waiting[client]:
            continue
        else:
            yield waiting[client].pop(0), what


def seen() -> Iterator[Seen]:
    """Yield every error that Kafka answered in a situation, each once."""
    yield from _seen_by_clients()
    yield from _seen_by_administrators()


def _seen_by_administrators() -> Iterator[Seen]:
    for scenario in admin_stories.SETTINGS:
        for name, ((_, asked, _), (_, answer)) in admin_stories.stored(scenario).items():
            title = admin_stories.title_of(name)
            if title in admin_stories.DIFFERENT:
                continue
            api, _, version = asked.partition(" v")
            for code in dict.fromkeys([None] if answer == CLOSED else codes(answer)):
                yield Seen(api, int(version), code, title.removeprefix(f"{api}: "))


def _seen_by_clients() -> Iterator[Seen]:
    for name, events in stored().items():
        if name in DIFFERENT:
            continue
        found = _VERSION.fullmatch(name)
        told: dict[Seen, None] = {}
        for asked, answer in answers(events):
            api, _, version = asked.partition(" v")
            for code in [None] if answer == CLOSED else codes(answer):
                told[Seen(api, int(version), code, found[1] if found else name)] = None
        yield from told


def _spans(versions: Iterable[int]) -> str:
    """Return versions as 0-3, 5."""
    spans: list[list[int]] = []
    for version in sorted(set(versions)):
        if spans and spans[-1][-1] == version - 1:
            spans[-1][1:] = [version]
        else:
            spans.append([version])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _named(code: int | None) -> str:
    return "the connection is closed" if code is None else error_code_of(code).name


def tables() -> str:
    """Return a heading and a table for each API that is served and was asked, in the order of their keys."""
    everything = list(seen())
    errors_in: dict[str, set[tuple[str, int | None]]] = defaultdict(set)
    for each in everything:
        errors_in[each.situation].add((each.api, each.code))
    lines = []
    for api in SERVED:
        rows = [each for each in everything if each.api == api.name]
        if not rows:
            continue
        lines += [f"### {api.name}", "", "| code | name | versions | for example |", "|---|---|---|---|"]
        for code in sorted({row.code for row in rows}, key=lambda code: (code is None, code or 0)):
            those = [row for row in rows if row.code == code]
            names = sorted(
                {row.situation for row in those}, key=lambda name: (len(errors_in[name]), len(name), name)
            )
            more = f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            number = "" if code is None else str(code)
            told = "; ".join(name.replace("|", "\\|") for name in names[:SHOWN])
            lines.append(
                f"| {number} | {_named(code)} | {_spans(row.version for row in those)} | {told}{more} |"
            )
        lines.append("")
    return "\n".join(lines)


def by_code() -> str:
    """Return a table of the codes that were seen, with the APIs that answer them."""
    apis: dict[int, set[str]] = defaultdict(set)
    for each in seen():
        if each.code is not None:
            apis[each.code].add(each.api)
    order = {api.name: api.key for api in SERVED}
    lines = ["| code | name | APIs |", "|---|---|---|"]
    for code, names in sorted(apis.items()):
        linked = ", ".join(
            f"[{name}](#{name.lower()})" for name in sorted(names & order.keys(), key=order.__getitem__)
        )
        lines.append(f"| {code} | {_named(code)} | {linked} |")
    return "\n".join(lines)
