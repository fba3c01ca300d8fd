"""tests/stories/<part>.txt: what Kafka answered in each situation, as text, and back.

A situation is its title, then blocks: requests, `----`, answers. Each line begins with a client's name::

    # commit: the member id of another member (v5-v9)

    a OffsetCommit v5-v9 group_id=$group member_id=nobody topics=[orders partitions=[0 committed_offset=5]]
    ----
    a NONE topics=[orders partitions=[0 UNKNOWN_MEMBER_ID]]

Versions of a situation with the same text share it; `v5-v9` is then the situation's version. `$group` is the
name of the situation, `$slug` the same as a topic's name or a transactional id. An omitted field has the default of its
schema. A value without a name is the error code, or what names the item of a list. A long line continues in indented
lines. An answer may also be `waits`, `closed`, `silence`, or `?`: not recorded yet. The commands among the requests:
player.py. A line of `cluster` says what happens to nodes. The text is the source: the recorder plays it with a Kafka.
Nothing is lost: reading a file and writing it again gives the file. Record batches: batches.py.
"""

import json
import re
from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from kafka_offsets.errors import ErrorCode, error_code_of
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.differential import batches
from tests.differential.play import Event, slug_of, subscription
from tests.differential.settings import PARTS

STORIES = Path(__file__).resolve().parents[1] / "stories"
WIDTH = 160
NOT_YET = "?"
"""In place of an answer that is not recorded yet."""

IN_PLACE_OF_AN_ANSWER = ("waits", "closed", "silence", NOT_YET)

CLUSTER = "cluster"
SETTING, DEFAULT = "setting", "default"
COMMANDS = (SETTING, "topic", "ids", "transactional", "pause", "until", "no", CLUSTER)
"""In place of a client: what is done among the requests. player.py says what each command does, all but `cluster`."""

QUIETLY = "quietly "
"""Before a client: a request whose answer is not recorded."""

NAMELESS = "-"
"""A client whose name is empty."""

NAMING = {
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "partition_index",
    "partition",
    "index",
    "partition_id",
    "group_id",
    "member_id",
    "transactional_id",
    "broker_id",
    "node_id",
    "api_key",
    "key",
    "resource_name",
    "user",
    "producer_id",
}
"""The fields that can name an item of a list."""

_NAME = re.compile(r"(.*) \(v(\d+)\)")
_TITLE = re.compile(r"(.*?)(?: \((v\d[v\d,-]*)\))?")
_TOKEN = re.compile(
    r'"[^"]*"(?:\*\d+)?|<[^>]*>|-?\d[\d.e+-]*|\w+=|[\[\]{},+]|subscribes\([^)]*\)|[^\s\[\]{},+=]+'
)
_BARE = re.compile(r"[A-Za-z_$#@][\w.$#-]*")
_MARK = re.compile(r'"[^"]*"|<[^>]*>|subscribes\([^)]*\)|[\[\]{},]')
_CONSTANTS = ("null", "true", "false")
_RUN = re.compile(r"(.)\1{39,}", re.DOTALL)


class Words(NamedTuple):
    """What the text of one situation writes for its name."""

    group: str
    slug: str

    def hide(self, text: str) -> str:
        """Replace the situation's name."""
        return text.replace(self.group, "$group").replace(self.slug, "$slug")

    def show(self, text: str) -> str:
        """Undo `hide`."""
        return text.replace("$group", self.group).replace("$slug", self.slug)


def words_of(situation: str) -> Words:
    """Return what a story writes for the name of a situation."""
    return Words(situation, slug_of(situation))


class _Layout:
    """What a struct consists of in one version.

    fields  by name
    naming  the field that names an item of a list
    error   the field whose value is written without its name, as the name of an error
    """

    def __init__(self, struct: Struct, version: int) -> None:
        self.struct = struct  # the key of `_layouts` is its id
        self.fields = {field.name: field for field in struct.fields if version in field.versions}
        self.naming = next((name for name in self.fields if name in NAMING), None)
        self.error = next((name for name in self.fields if name.endswith("error_code")), "")


_layouts: dict[tuple[int, int], _Layout] = {}


def _layout_of(struct: Struct, version: int) -> _Layout:
    key = id(struct), version
    if (layout := _layouts.get(key)) is None:
        layout = _layouts[key] = _Layout(struct, version)
    return layout


def _default(field: Field, version: int) -> Any:
    """Return what a field is that a story leaves out."""
    if field.array or field.default is None:
        return None if field.default is None else []
    if field.struct is not None:
        return {
            each.name: _default(each, version) for each in _layout_of(field.struct, version).fields.values()
        }
    if isinstance(field.default, bytes):
        return field.default.hex() if field.type == "uuid" else field.default.decode("latin-1")
    return field.default


@cache
def _schema(api: str, version: int, kind: str) -> tuple[Struct, int]:
    """Return what a request or a response consists of, and the version in which it is written."""
    schema = messages.find(f"{api}{kind}").SCHEMA
    if version in schema.versions:
        return schema.struct, version
    return schema.struct, schema.versions[-1] if kind == "Request" else 0


# -- events to text


def _quoted(text: str, words: Words) -> str:
    escaped = text.encode("unicode_escape").decode("ascii").replace('"', r"\x22").replace("$", r"\x24")
    return f'"{words.hide(escaped)}"'


def _string(text: str, words: Words) -> str:
    if topics := _topics_of(text):
        return f"subscribes({','.join(map(words.hide, topics))})"
    runs = list(_RUN.finditer(text))
    bare = text if "$" in text or runs else words.hide(text)
    if (
        _BARE.fullmatch(bare)
        and "$" not in text
        and not runs
        and bare not in (*_CONSTANTS, *ErrorCode.__members__)
    ):
        return bare
    parts, end = [], 0
    for run in runs:
        parts += [_quoted(text[end : run.start()], words)] if run.start() > end else []
        parts.append(f"{_quoted(run[1], words)}*{len(run[0])}")
        end = run.end()
    return "+".join(parts + ([_quoted(text[end:], words)] if end < len(text) or not parts else []))


def _topics_of(text: str) -> list[str] | None:
    """Return the topics of a subscription that `subscribes(…)` can express."""
    if not text.startswith("\0\0\0\0") or not text.endswith("\xff" * 4):
        return None
    data, topics, at = text.encode("latin-1", "replace"), [], 6
    while at < len(data) - 4:
        size = int.from_bytes(data[at : at + 2], "big")
        topics.append(data[at + 2 : at + 2 + size].decode("latin-1"))
        at += 2 + size
    plain = all(re.fullmatch(r"[\w.-]+", topic) for topic in topics)
    return topics if plain and subscription(*topics) == data and topics else None


def _atom(value: Any, words: Words) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_atom(each, words) for each in value)}]"
    if isinstance(value, str):
        return _string(value, words)
    return json.dumps(value)


def _value(value: Any, field: Field, version: int, words: Words) -> str:
    if field.type == "records" and isinstance(value, str):
        texts = batches.texts_of(value.encode("latin-1"))
        each = [t if isinstance(t, str) else _string(t.decode("latin-1"), words) for t in texts]
        return "+".join(each) or _atom(value, words)
    if value is None or field.struct is None or isinstance(value, str):
        return _atom(value, words)
    if field.array:
        return f"[{', '.join(_fields(each, field.struct, version, words, item=True) for each in value)}]"
    return "{" + _fields(value, field.struct, version, words) + "}"


def _fields(values: dict[str, Any], struct: Struct, version: int, words: Words, *, item: bool = False) -> str:
    layout = _layout_of(struct, version)
    naming = layout.naming if item else None
    first, shown = [], []
    for field in layout.fields.values():
        value = values.get(field.name, _default(field, version))
        if field.name == naming:
            first.insert(0, _atom(value, words))
        elif field.name == layout.error:
            first.append(error_code_of(value).name)
        elif value != _default(field, version):
            named = field.name.endswith("error_code")
            text = error_code_of(value).name if named else _value(value, field, version, words)
            shown.append(f"{field.name}={text}")
    return " ".join(first + shown) or "{}"


def _broken(text: str, indent: int) -> list[str]:
    """Break a text that is too long around the items of its longest list."""
    if indent + len(text) <= WIDTH or (found := _longest_list(text)) is None:
        return [" " * indent + text]
    lines = _broken(text[: found[0]], indent)
    for start, end in pairwise(found):
        lines += _broken(text[start:end].strip(), indent + 2)
    return lines + _broken(text[found[-1] :], indent)


def _longest_list(text: str) -> list[int] | None:
    """Return where the longest list begins, its items end and the list ends."""
    depth, lists = 0, []
    for mark in _MARK.finditer(text):
        if mark[0] in "[{":
            depth += 1
            if depth == 1:
                lists.append([mark.end()])
        elif mark[0] in "]}":
            depth -= 1
            if depth == 0:
                lists[-1].append(mark.start())
        elif mark[0] == "," and depth == 1:
            lists[-1].append(mark.end())
    found = max(lists, key=lambda marks: marks[-1] - marks[0], default=None)
    return found if found and found[-1] > found[0] else None


def _lines(events: Iterable[Event], words: Words) -> Iterator[tuple[str, str, str]]:
    """Yield each event as its client, its version ("" for an answer) and its text."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for client, what, *request in events:
        shown = client or NAMELESS
        if client in COMMANDS:
            yield shown, words.hide(what), ""
        elif request:
            if not client.startswith(QUIETLY):
                waiting[client].append(what)
            api, _, version = what.partition(" v")
            struct, written = _schema(api, int(version), "Request")
            yield f"{shown} {api}", f"v{version}", _fields(request[0], struct, written, words)
        elif isinstance(what, str):
            yield shown, "", what if what in IN_PLACE_OF_AN_ANSWER else _quoted(what, words)
            waiting[client] = waiting[client][what != "waits" :]
        else:
            api, _, version = waiting[client].pop(0).partition(" v")
            struct, written = _schema(api, int(version), "Response")
            yield shown, "", _fields(what, struct, written, words)


def _blocks(lines: list[tuple[str, str, str]]) -> str:
    written: list[str] = []
    asking = False
    for front, version, text in lines:
        if bool(version) != asking:
            written.append("" if version else "----")
            asking = not asking
        written += _broken(" ".join(filter(None, (front, version, text))), 0)
    return "\n".join(written) + "\n"


def file_of(situations: dict[str, list[Event]]) -> str:
    """Return the text of a file; the versions of a situation that read alike have one text."""
    by_title: dict[str, dict[str, list[tuple[str, str, str]]]] = defaultdict(dict)
    for name, events in situations.items():
        found = _NAME.fullmatch(name)
        title, version = (found[1], f"v{found[2]}") if found else (name, "")
        by_title[title][version] = list(_lines(events, words_of(name)))
    settings = {setting_of(events) for events in situations.values()}
    head = f"{SETTING} {settings.pop()}\n\n" if len(settings) == 1 and settings != {DEFAULT} else ""
    return head + "\n".join(
        f"# {title}{versions and f' ({versions})'}\n{_blocks(lines[bool(head) :])}"
        for title, each in by_title.items()
        for versions, lines in _merged(each)
    )


def _merged(
    by_version: dict[str, list[tuple[str, str, str]]],
) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the texts of one situation, each once with the versions that have it."""
    while by_version:
        first = next(iter(by_version))
        alike = [first]
        for other in list(by_version)[1:]:
            if all(_uniform_run([*alike, other], each) for each in _together(by_version, [*alike, other])):
                alike.append(other)
        label = _spans(alike)
        yield (
            label,
            [
                (front, version if len({line[1] for line in rows}) == 1 else label, text)
                for rows in _together(by_version, alike)
                for front, version, text in rows[:1]
            ],
        )
        for version in alike:
            del by_version[version]


def _together(
    by_version: dict[str, list[tuple[str, str, str]]], versions: list[str]
) -> Iterator[tuple[tuple[str, str, str], ...]]:
    return zip_longest(*(by_version[version] for version in versions), fillvalue=("", "", ""))


def _uniform_run(versions: list[str], lines: tuple[tuple[str, str, str], ...]) -> bool:
    """Whether lines are the same but for the version, which is the same or the situation's."""
    asked = [line[1] for line in lines]
    return len({(front, text) for front, _, text in lines}) == 1 and (
        len(set(asked)) == 1 or asked == versions
    )


def _spans(versions: list[str]) -> str:
    spans: list[list[str]] = []
    for version in versions:
        if spans and int(version[1:]) == int(spans[-1][-1][1:]) + 1:
            spans[-1][1:] = [version]
        else:
            spans.append([version])
    return ",".join("-".join(span) for span in spans)


# -- text to events


class _Reader:
    """Values from the tokens of one event."""

    def __init__(self, text: str, words: Words) -> None:
        self.tokens = _TOKEN.findall(text)
        self.tokens.reverse()
        self.words = words

    def next(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def take(self, token: str) -> bool:
        """Pass a token over, if it is the next one."""
        if self.next() != token:
            return False
        self.tokens.pop()
        return True

    def struct(self, struct: Struct, version: int) -> dict[str, Any]:
        layout = _layout_of(struct, version)
        declared = layout.fields
        given: dict[str, Any] = {}
        while self.next() not in ("", ",", "]", "}"):
            if self.take("{"):
                assert self.take("}")
            elif self.next().endswith("="):
                field = declared[self.tokens.pop()[:-1]]
                given[field.name] = self.value(field, version)
            elif self.next() in ErrorCode.__members__:
                given[layout.error] = ErrorCode[self.tokens.pop()].value
            else:
                given[layout.naming or ""] = self.atom()
        assert given.keys() <= declared.keys(), (
            f"{struct.name} has no {sorted(given.keys() - declared.keys())}"
        )
        return {
            name: given[name] if name in given else _default(field, version)
            for name, field in declared.items()
        }

    def value(self, field: Field, version: int) -> Any:
        if field.name.endswith("error_code"):
            return ErrorCode[self.tokens.pop()].value
        if field.struct is None or self.next() not in ("[", "{"):
            return self.atom()
        if self.take("{"):
            value = self.struct(field.struct, version)
            assert self.take("}")
            return value
        return self.items(lambda: self.struct(field.struct, version))

    def items(self, item: Callable[[], Any]) -> list[Any]:
        assert self.take("["), self.next()
        items = []
        while not self.take("]"):
            items.append(item())
            self.take(",")
        return items

    def atom(self) -> Any:
        if self.next() == "[":
            return self.items(self.atom)
        token = self.tokens.pop()
        if token.startswith("subscribes("):
            topics = [self.words.show(topic) for topic in token[11:-1].split(",")]
            return subscription(*topics).decode("latin-1")
        if token.startswith("<"):
            value = batches.data_of(token).decode("latin-1")
            return value + self.atom() if self.take("+") else value
        if token.startswith('"'):
            _, text, times = token.split('"')
            value = self.words.show(text).encode("ascii").decode("unicode_escape") * int(times[1:] or 1)
            return value + self.atom() if self.take("+") else value
        return (
            self.words.show(token)
            if _BARE.fullmatch(token) and token not in _CONSTANTS
            else json.loads(token)
        )


def events_of(name: str, text: str) -> list[Event]:
    """Return the events of one situation from its text without the title.

    Without `----` it is a new one, in which each request is answered before the next one is sent.
    """
    found = _NAME.fullmatch(name)
    own, words = f"v{found[2]}" if found else "", words_of(name)
    events: list[Event] = []
    waiting: dict[str, list[str]] = defaultdict(list)
    asking = True
    for line in re.sub(r"\n(?=[ \]}])\s*", " ", text).splitlines():
        if line in ("", "----"):
            asking = line == ""
        elif asking:
            events.append(_asked(line, own, words, waiting))
        else:
            events.append(_answer(line, words, waiting))
    return events if "\n----\n" in text else list(_answered_in_turn(events))


def _asked(line: str, own: str, words: Words, waiting: dict[str, list[str]]) -> Event:
    """Return a request or a command; the answer to a request is awaited."""
    if line.partition(" ")[0] in COMMANDS:
        return words.show(line).split(" ", 1)
    quietly = QUIETLY if line.startswith(QUIETLY) else ""
    client, api, version, *rest = line.removeprefix(quietly).split(" ", 3)
    client = "" if client == NAMELESS else client
    asked = f"{api} {version if version[1:].isdecimal() else own}"
    if not quietly:
        waiting[client].append(asked)
    return [quietly + client, asked, _message(asked, "Request", "".join(rest), words)]


def _answer(line: str, words: Words, waiting: dict[str, list[str]]) -> Event:
    client, _, what = line.partition(" ")
    client = "" if client == NAMELESS else client
    if what in IN_PLACE_OF_AN_ANSWER:
        waiting[client] = waiting[client][what != "waits" :]
        return [client, what]
    return [client, _message(waiting[client].pop(0), "Response", what, words)]


def _answered_in_turn(events: list[Event]) -> Iterator[Event]:
    """Yield the requests of a new situation, each with the answer that is not recorded yet."""
    for event in events:
        yield event
        if len(event) > 2 and not event[0].startswith(QUIETLY):
            yield [event[0], NOT_YET]


def _message(asked: str, kind: str, text: str, words: Words) -> dict[str, Any]:
    api, _, version = asked.partition(" v")
    reader = _Reader(text, words)
    message = reader.struct(*_schema(api, int(version), kind))
    assert not reader.tokens, f"{asked}: {text}"
    return message


def exchanged(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the requests and the answers that are recorded, without what is done among them."""
    return (event for event in events if event[0] not in COMMANDS and not event[0].startswith(QUIETLY))


def setting_of(events: list[Event]) -> str:
    """Return which of SETTINGS the broker of a situation has."""
    command, name, *_ = events[0]
    return name if command == SETTING else DEFAULT


class Stories(Mapping[str, list[Event]]):
    """The events of all situations by name, read when they are first asked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._bodies: dict[str, str] = {}
        self._events: dict[str, list[Event]] = {}
        for text in texts:
            head, _, stories = f"\n\n{text}".partition("\n\n# ")
            for story in stories.split("\n\n# "):
                title, _, body = story.partition("\n")
                if head:
                    body = f"\n{head.strip()}{body}"
                found = _TITLE.fullmatch(title)
                assert found, title
                for name in _names(*found.groups()):
                    assert name not in self._bodies, f"twice: {name}"
                    self._bodies[name] = body

    def __getitem__(self, name: str) -> list[Event]:
        if name not in self._events:
            self._events[name] = events_of(name, self._bodies[name])
        return self._events[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)


def _names(title: str, versions: str | None) -> list[str]:
    """Return the names of the situations of a title."""
    if versions is None:
        return [title]
    spans = [[int(end[1:]) for end in span.split("-")] for span in versions.split(",")]
    return [f"{title} (v{version})" for span in spans for version in range(span[0], span[-1] + 1)]


@cache
def part(name: str) -> Stories:
    """Return what Kafka answered in one of PARTS."""
    return Stories([(STORIES / f"{name}.txt").read_text(encoding="utf-8")])


@cache
def stored() -> ChainMap[str, list[Event]]:
    """Return what Kafka answered in all of them."""
    return ChainMap(*map(part, reversed(PARTS)))
