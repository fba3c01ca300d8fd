"""tests/stories/<part>.txt: what Kafka answered in each situation, as text, and back.

A situation is its title, then blocks: requests, `----`, answers. Each line begins with a client's name::

    # commit: the member id of another member (v5-v9)

    a OffsetCommit v5-v9 group_id=$group member_id=nobody topics=[orders partitions=[0 committed_offset=5]]
    ----
    a NONE topics=[orders partitions=[0 UNKNOWN_MEMBER_ID]]

Versions of a situation with the same text share it; `v5-v9` is then the situation's version. `$group` is the
name of the situation, `$slug` the same as a topic's name or a transactional id. An omitted field has the default of its
schema. A value without a name is the error code, or what names the item of a list. A long line continues in indented
lines. An answer may also be `waits`, `closed`, `silence`, or `?`: not recorded yet. A block without `----` is new: each
of its requests is answered before the next one is sent; one with nothing below `----` gets no answer. The commands:
player.py. A line of `cluster` says what happens to nodes. The text is the source: the recorder plays it
with a Kafka.
Nothing is lost: reading a file and writing it again gives the file. Record batches: batches.py.
"""

import json
import re
from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from kafka_offsets.errors import ErrorCode, error_code_of
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.differential import batches
from tests.differential.play import Event, slug_of, subscription
from tests.differential.settings import PARTS, SETTINGS

STORIES = Path(__file__).resolve().parents[1] / "stories"
WIDTH = 160
NOT_YET = "?"
"""In place of an answer that is not recorded yet."""

IN_PLACE_OF_AN_ANSWER = ("waits", "closed", "silence", NOT_YET)

CLUSTER = "cluster"
SETTING, DEFAULT = "setting", "default"
_FORMS = {
    "setting NAME": rf"setting (?:{'|'.join(SETTINGS)})",
    "topic NAME partitions=N KEY=VALUE": r"topic \S+ partitions=\d+(?: \S+=\S+)*",
    "ids NAME": r"ids \S+(?: \S+)*",
    "transactional NAME": r"transactional \S.*",
    "pause N ms": r"pause \d+ ms",
    "until NAME has N partitions": r"until \S+ has \d+ partitions",
    "until NAME is gone": r"until \S+ is gone",
    "until N acls": r"until \d+ acls",
    "no acls": "no acls",
    "until group coordinator NAME": r"until (?:group|transaction) coordinator \S.*",
    "cluster TEXT": r"cluster \S.*",
}
COMMANDS = frozenset(form.partition(" ")[0] for form in _FORMS)
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

_REQUEST = re.compile(r"(\S+) ([A-Z][A-Za-z]+) (v\d[v\d,-]*)(?: (.*))?")
_NAME = re.compile(r"(.*) \(v(\d+)\)")
_TITLE = re.compile(r"(.*?)(?: \((v\d[v\d,-]*)\))?")
_TOKEN = re.compile(
    r'"[^"]*"(?:\*\d+)?|<[^>]*>|-?\d[\d.e+-]*|\w+=|[\[\]{},+]|subscribes\([^)]*\)|[^\s\[\]{},+=]+'
)
_BARE = re.compile(r"[A-Za-z_$#@][\w.$#-]*")
_MARK = re.compile(r'"[^"]*"|<[^>]*>|subscribes\([^)]*\)|[\[\]{},]')
_UNKNOWN_WORD = re.compile(r"\$(?!group|slug)\w*")
_CONSTANTS = ("null", "true", "false")
_RUN = re.compile(r"(.)\1{39,}", re.DOTALL)


class StoryError(AssertionError):
    """The text of a story cannot be played; it says file, line, title and what is wrong."""


def _check(holds: object, wrong: str) -> None:
    if not holds:
        raise StoryError(wrong)


class Words(NamedTuple):
    """What the text of one situation writes for its name."""

    group: str
    slug: str

    def hide(self, text: str) -> str:
        """Replace the situation's name."""
        return text.replace(self.group, "$group").replace(self.slug, "$slug")

    def show(self, text: str) -> str:
        """Undo `hide`."""
        unknown = _UNKNOWN_WORD.search(text)
        _check(
            not unknown,
            f"{unknown and unknown[0]} is neither $group nor $slug; a $ itself is \\x24, in quotes",
        )
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
    asking = unanswered = False
    for front, version, text in lines:
        if bool(version) != asking:
            written.append("" if version else "----")
            asking, unanswered = not asking, False
        unanswered |= asking and " " in front and not front.startswith(QUIETLY)
        written += _broken(" ".join(filter(None, (front, version, text))), 0)
    written += ["----"] * unanswered
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
                _check(self.take("}"), "after { comes }, or a field's name before it")
                continue
            name, value = self._field(layout, version)
            if name not in declared:
                known = f"{struct.name} v{version} has {', '.join(declared) or 'none'}"
                unnamed = f"{value!r} is no error code, and no field's name is before it"
                what = f"no field is called {name!r}" if name else unnamed
                raise StoryError(f"{what}: {known}")
            _check(
                name not in given,
                f"{name} is given twice, as {given.get(name)!r} and {value!r}: is a comma missing?",
            )
            given[name] = value
        return {
            name: given[name] if name in given else _default(field, version)
            for name, field in declared.items()
        }

    def _field(self, layout: _Layout, version: int) -> tuple[str, Any]:
        """Return a name and a value; of a field that is unknown the name alone."""
        if self.next().endswith("="):
            name = self.tokens.pop()[:-1]
            return name, self.value(layout.fields[name], version) if name in layout.fields else None
        if self.next() in ErrorCode.__members__:
            return layout.error, ErrorCode[self.tokens.pop()].value
        naming = layout.fields.get(layout.naming or "")
        return layout.naming or "", self.atom(naming.type if naming else "")

    def value(self, field: Field, version: int) -> Any:
        if field.name.endswith("error_code"):
            _check(self.next() in ErrorCode.__members__, f"{field.name}: no error is called {self.next()!r}")
            return ErrorCode[self.tokens.pop()].value
        _check(
            not field.array or self.next() in ("[", "null") or self.next().isupper(),
            f"{field.name} is a list: [, not {self.next()!r}",
        )
        if field.struct is None or self.next() not in ("[", "{"):
            return self.atom(field.type)
        if self.take("{"):
            value = self.struct(field.struct, version)
            _check(self.take("}"), f"{field.name} has no }}")
            return value
        return self.items(lambda: self.struct(field.struct, version))

    def items(self, item: Callable[[], Any]) -> list[Any]:
        _check(self.take("["), f"a list begins with [, not {self.next()!r}")
        items = []
        while not self.take("]"):
            items.append(item())
            _check(
                self.take(",") or self.next() == "]",
                f"in a list , or ] is missing before {self.next() or 'the end'!r}",
            )
        return items

    def atom(self, type_: str = "") -> Any:
        if self.next() == "[":
            return self.items(lambda: self.atom(type_))
        _check(
            self.next() not in ("", ",", "]", "}"), f"a value is missing before {self.next() or 'the end'!r}"
        )
        token = self.tokens.pop()
        number = "int" not in type_ or not _BARE.fullmatch(token) or token in _CONSTANTS or token.isupper()
        _check(number, f"{token} is no number")
        if token.startswith("subscribes("):
            topics = [self.words.show(topic) for topic in token[11:-1].split(",")]
            return subscription(*topics).decode("latin-1")
        if token.startswith("<"):
            value = batches.data_of(token).decode("latin-1")
            return value + self.atom() if self.take("+") else value
        if token.startswith('"'):
            _check(token.count('"') == 2, f"{token} has no second quote")
            _, text, times = token.split('"')
            value = self.words.show(text).encode("ascii").decode("unicode_escape") * int(times[1:] or 1)
            return value + self.atom() if self.take("+") else value
        if _BARE.fullmatch(token) and token not in _CONSTANTS:
            return self.words.show(token)
        try:
            return json.loads(token)
        except json.JSONDecodeError:
            raise StoryError(
                f"{token} is no value: a text with such signs, or with spaces, is in double quotes"
            ) from None


def _lines_of(text: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text, each with the indented lines that continue it, and the number of each."""
    number, line = first, ""
    for at, each in enumerate(text.split("\n"), first):
        if line and each.startswith((" ", "\t", "]", "}")):
            line += f" {each.strip()}"
        else:
            yield number, line
            number, line = at, each
    yield number, line
    yield number + 1, ""


class _Events:
    """The events of one situation, from its text without the title; `label` is the versions in the title."""

    def __init__(self, name: str, label: str) -> None:
        found = _NAME.fullmatch(name)
        self.own, self.label, self.words = f"v{found[2]}" if found else "", label, words_of(name)
        self.events: list[Event] = []
        self._block: list[Event] = []
        self._waiting: dict[str, list[str]] = defaultdict(list)
        self._asking = True

    def take(self, line: str) -> None:
        """Read one line."""
        if line == "----":
            self.events += self._block
            self._block, self._asking = [], False
        elif not line:
            # In a block that has no answers yet, each is to come before the next request.
            for event in self._block:
                self.events.append(event)
                if len(event) > 2 and not event[0].startswith(QUIETLY):
                    self._waiting[event[0]].remove(event[1])
                    self.events.append([event[0], NOT_YET])
            self._block, self._asking = [], True
        elif self._asking:
            self._block.append(self._asked(line))
        else:
            self.events.append(self._answer(line))

    def _asked(self, line: str) -> Event:
        """Return a request or a command; the answer to a request is awaited."""
        command = line.partition(" ")[0]
        if command in COMMANDS:
            forms = [form for form in _FORMS if form.partition(" ")[0] == command]
            known = any(re.fullmatch(_FORMS[form], line) for form in forms)
            names = f", NAME is one of {', '.join(SETTINGS)}" if command == SETTING else ""
            _check(known, f"write {' or '.join(f'`{form}`' for form in forms)}{names}")
            first = not self.events and not self._block
            _check(command != SETTING or first, "a setting is the first line of a situation or of a file")
            return self.words.show(line).split(" ", 1)
        quietly = QUIETLY if line.startswith(QUIETLY) else ""
        if not (found := _REQUEST.fullmatch(line.removeprefix(quietly))):
            raise StoryError(
                f"neither a request, `CLIENT Api vN FIELD=VALUE`, nor a command ({', '.join(sorted(COMMANDS))}); "
                "a client's name has no space, and answers stand below `----`"
            )
        client, api, version, text = found.groups("")
        client = "" if client == NAMELESS else client
        if not version[1:].isdecimal():
            _check(
                version == self.label,
                f"the versions {version} are not those of the title, {self.label or 'none'}",
            )
            version = self.own
        asked = f"{api} {version}"
        if not quietly:
            self._waiting[client].append(asked)
        return [quietly + client, asked, _message(asked, "Request", text, self.words)]

    def _answer(self, line: str) -> Event:
        client, _, what = line.partition(" ")
        client = "" if client == NAMELESS else client
        if not self._waiting[client]:
            raise StoryError(
                f"{client} awaits no answer here; before a request or a command there is an empty line"
            )
        _check(what, "an answer is missing: write `?` for one that is to come")
        if what in IN_PLACE_OF_AN_ANSWER:
            self._waiting[client] = self._waiting[client][what != "waits" :]
            return [client, what]
        return [client, _message(self._waiting[client].pop(0), "Response", what, self.words)]


def _message(asked: str, kind: str, text: str, words: Words) -> dict[str, Any]:
    api, _, version = asked.partition(" v")
    if f"{api}{kind}" not in _message_names():
        near = get_close_matches(f"{api}{kind}", _message_names(), 1)
        meant = f": {near[0].removesuffix(kind)}?" if near else ""
        raise StoryError(f"no API is called {api}{meant}")
    reader = _Reader(text, words)
    message = reader.struct(*_schema(api, int(version), kind))
    _check(not reader.tokens, f"{reader.next()} is one too many")
    return message


@cache
def _message_names() -> frozenset[str]:
    return frozenset(messages.names())


def exchanged(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the requests and the answers that are recorded, without what is done among them."""
    return (event for event in events if event[0] not in COMMANDS and not event[0].startswith(QUIETLY))


def setting_of(events: list[Event]) -> str:
    """Return which of SETTINGS the broker of a situation has."""
    command, name, *_ = events[0]
    return name if command == SETTING else DEFAULT


class _Body(NamedTuple):
    """The text of a situation, and where it is."""

    file: str
    line: int
    label: str
    head: str
    text: str


def _events_of(name: str, body: _Body) -> list[Event]:
    """Return the events of one situation. Raises StoryError."""
    found = _Events(name, body.label)
    try:
        for at in [(1, body.head), *_lines_of(body.text, body.line + 1)]:
            _check(not at[1].startswith("#"), "a title has an empty line above it")
            found.take(at[1])
        at = (body.line, f"# {name}")
        _check(found.events, "a situation without a request")
    except StoryError as error:
        number, line = at
        shown = line if len(line) <= WIDTH else f"{line[:WIDTH]}…"
        raise StoryError(f"{body.file}, line {number}, in `{name}`: {error}\n    {shown}") from None
    return found.events


class Stories(Mapping[str, list[Event]]):
    """The events of all situations by name, read when they are first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Take texts by the name of their file."""
        self._bodies: dict[str, _Body] = {}
        self._events: dict[str, list[Event]] = {}
        for file, text in texts.items():
            head, *stories = re.split(r"(?:^|\n\n)# ", text)
            at = text.index("# ") if stories else 0
            head = head.strip()
            _check(
                stories and (not head or re.fullmatch(_FORMS["setting NAME"], head)),
                f"{file}, line 1: above the first title, `# TITLE` after an empty line, is nothing but a setting",
            )
            number = text.count("\n", 0, at) + 1
            for story in stories:
                title, _, body = story.partition("\n")
                found = _TITLE.fullmatch(title)
                assert found, title
                for name in _names(*found.groups()):
                    _check(name not in self._bodies, f"{file}, line {number}: a title occurs twice: {name}")
                    self._bodies[name] = _Body(file, number, found[2] or "", head, body)
                number += story.count("\n") + 2

    def __getitem__(self, name: str) -> list[Event]:
        if name not in self._events:
            self._events[name] = _events_of(name, self._bodies[name])
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
    return Stories({f"{name}.txt": (STORIES / f"{name}.txt").read_text(encoding="utf-8")})


@cache
def stored() -> ChainMap[str, list[Event]]:
    """Return what Kafka answered in all of them."""
    return ChainMap(*map(part, reversed(PARTS)))
