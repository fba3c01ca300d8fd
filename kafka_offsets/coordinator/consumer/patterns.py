"""Regular expressions of consumer groups: matching topic names.

The syntax is that of RE2, which Kafka uses through RE2J: back references and look-around, which need backtracking, are
refused. Names consist of printable ASCII characters, so every character class is a small set. An expression becomes a
nondeterministic automaton, which reads any name in time proportional to its length; its size and its depth have
limits. Names are matched in steps, because an automaton of maximum size takes milliseconds for each character.
Source: RE2J 1.8, Parser; TopicRegexResolver and Utils.throwIfRegularExpressionIsInvalid of Kafka 4.3.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache
from typing import NamedTuple

_ALPHABET = frozenset(map(chr, range(0x20, 0x7F)))
"""Characters of names: topic names use 65 of these, transactional ids may use all."""

_MARKS = frozenset(string.punctuation)
_BLANK = frozenset(" ")

_WORD = frozenset(string.ascii_letters + string.digits + "_")
_NOTHING: frozenset[str] = frozenset()

_MOST_STATES = 20_000
"""Maximum number of states of an automaton; RE2J has no limit."""

_DEEPEST = 150
"""Maximum nesting of groups; in RE2J the stack is the limit."""

_LONGEST = 10_000
"""Maximum length of an expression: with so many letters it has the maximum number of states."""

_MOST_REPEATS = 1000
_MOST_STATES_KEPT = 50_000
_KEPT_STEP = 8
"""The size of a cached step, in the same unit, apart from its states."""

_STATES_A_STEP = 2000
"""A name with a higher cost is matched in several steps; an automaton with more states is built in several."""

_COST_OF_BUILDING = 4
"""The cost of creating a state, in visited states."""

_PERL = {"d": frozenset(string.digits), "s": _BLANK, "w": _WORD}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": _ALPHABET,
    "blank": _BLANK,
    "cntrl": _NOTHING,
    "digit": frozenset(string.digits),
    "graph": _ALPHABET - _BLANK,
    "lower": frozenset(string.ascii_lowercase),
    "print": _ALPHABET,
    "punct": _MARKS,
    "space": _BLANK,
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_UNICODE = {
    "Any": _ALPHABET,
    "L": frozenset(string.ascii_letters),
    "Ll": frozenset(string.ascii_lowercase),
    "Lu": frozenset(string.ascii_uppercase),
    "N": frozenset(string.digits),
    "Nd": frozenset(string.digits),
    "P": _MARKS - frozenset("$+<=>^`|~"),
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "Pe": frozenset(")]}"),
    "Po": frozenset("!\"#%&'*,./:;?@\\"),
    "Ps": frozenset("([{"),
    "S": frozenset("$+<=>^`|~"),
    "Sc": frozenset("$"),
    "Sk": frozenset("^`"),
    "Sm": frozenset("+<=>|~"),
    "Z": _BLANK,
    "Zs": _BLANK,
    "Latin": frozenset(string.ascii_letters),
    "Common": frozenset(string.digits) | _MARKS | _BLANK,
}
"""Categories and scripts that contain printable ASCII characters."""

_OTHER_UNICODE = frozenset(
    re.findall(
        r"\S+",
        """
        C Cc Cf Co Cs Lm Lo Lt M Mc Me Mn Nl No Pe Pf Pi Ps S Sc Sk Sm So Z Zl Zp Zs  Arabic Armenian
        Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid  Canadian_Aboriginal
        Carian Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari  Egyptian_Hieroglyphs
        Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo  Hebrew Hiragana
        Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese  Kaithi Kannada
        Katakana Kayah_Li Kharoshthi Khmer Lao Lepcha Limbu Linear_B Lisu Lycian Lydian  Malayalam
        Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic  Old_Persian
        Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan
        Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham
        Tai_Viet  Tamil Telugu Thaana Thai Tibetan Tifinagh Ugaritic Vai Yi
        """,
    )
)
"""Categories and scripts that contain none."""

_FOLDED = {"\u017f": "s", "\u212a": "k"}
"""Non-ASCII characters that equal an ASCII letter when case is ignored."""

_ESCAPES = frozenset("afnrtv")
_NAME = re.compile(r"[A-Za-z0-9_]+")
_COUNTS = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")

BAD_REPEAT_SIZE = "invalid repeat count"
MISSING_BRACKET = "missing closing ]"
MISSING_PAREN = "missing closing )"
BAD_RANGE = "invalid character class range"
BAD_ESCAPE = "invalid escape sequence"
BAD_PERL = "invalid or unsupported Perl syntax"
BAD_NAME = "invalid named capture"
SAME_NAME = "duplicate capture group name"
BAD_REPEAT = "invalid nested repetition operator"
NOTHING_TO_REPEAT = "missing argument to repetition operator"
TRAILING_BACKSLASH = "trailing backslash at end of expression"
UNEXPECTED_PAREN = "regexp/syntax: internal error"
TOO_LARGE = "expression is too large"


class PatternError(ValueError):
    """An invalid expression; the message is that of RE2J, without the expression."""


class _Chars(NamedTuple):
    """Matches one of these characters."""

    allowed: frozenset[str]


class _All(NamedTuple):
    """Matches the parts in order."""

    parts: tuple[_Node, ...]


class _Any(NamedTuple):
    """Matches one of the parts."""

    choices: tuple[_Node, ...]


class _Repeat(NamedTuple):
    """Matches the part `least` to `most` times; `most` None: without limit."""

    part: _Node
    least: int
    most: int | None


class _Here(NamedTuple):
    """Matches a position: `start`, `end`, at a word `border`, or `inside` (not at a border)."""

    kind: str


_Node = _Chars | _All | _Any | _Repeat | _Here


Matching = Generator[int, None, frozenset[str]]
"""Yields the cost of each part in visited states, less than a microsecond each; returns the matching names."""


class TopicPattern:
    """A regular expression that must match whole topic names."""

    def __init__(self, expression: str) -> None:
        """Compile `expression`; raise PatternError if it is not valid."""
        if len(expression) > _LONGEST:
            raise PatternError(TOO_LARGE)
        self._node = _Parser(expression).parse()
        if _count_states(self._node) > _MOST_STATES:
            raise PatternError(TOO_LARGE)

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that match."""
        steps = self.match_in_steps(names)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                found: frozenset[str] = ended.value
                return found

    def match_in_steps(self, names: Iterable[str]) -> Matching:
        """Return the names that match, and yield after each short part of the work."""
        automaton = _Automaton()
        yield from automaton.build(self._node)
        found = []
        for name in names:
            if (yield from automaton.accepts(name)):
                found.append(name)
        return frozenset(found)


def _count_states(node: _Node) -> int:
    """Return the number of states of an automaton, without the first and the last, before it is built."""
    match node:
        case _Chars():
            return 1
        case _Here():
            return 0
        case _All(parts):
            return max(len(parts) - 1, 0) + sum(map(_count_states, parts))
        case _Any(choices):
            return sum(map(_count_states, choices))
        case _Repeat(part, least, most):
            count = _count_states(part) + 1
            return (least + 1) * count + 1 if most is None else most * count


# ---- reading expressions --------------------------------------------------------------------------------------


class _Group:
    """A group that is being parsed: the complete alternatives, and the parts of the current one."""

    def __init__(self, flags: frozenset[str]) -> None:
        self.choices: list[_Node] = []
        self.parts: list[_Node] = []
        self.flags = flags

    def node(self) -> _Node:
        self.split()
        return self.choices[0] if len(self.choices) == 1 else _Any(tuple(self.choices))

    def split(self) -> None:
        self.choices.append(self.parts[0] if len(self.parts) == 1 else _All(tuple(self.parts)))
        self.parts = []


class _Parser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.groups = [_Group(self.flags)]
        self.names: set[str] = set()
        self.repeated_at = -1  # where a repetition has just ended
        self.may_have_posix = True  # whether the rest may contain ":]"

    def parse(self) -> _Node:
        """Return the syntax tree of the expression."""
        while self.at < len(self.text):
            self._one()
        if len(self.groups) > 1:
            raise PatternError(MISSING_PAREN)
        return self.groups[0].node()

    def _one(self) -> None:
        char = self.text[self.at]
        match char:
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self.at += 1
                self.groups[-1].split()
            case "*" | "+" | "?":
                self.at += 1
                self._repeat(int(char == "+"), 1 if char == "?" else None)
            case "{":
                self._counted()
            case "[":
                self._add(_Chars(self._class()))
            case "^" | "$":
                self.at += 1
                self._add(_Here("start" if char == "^" else "end"))
            case ".":
                self.at += 1
                self._add(_Chars(_ALPHABET))
            case "\\":
                self._escape()
            case _:
                self.at += 1
                self._add(self._literal(char))

    def _add(self, node: _Node) -> None:
        self.groups[-1].parts.append(node)

    def _fold(self, chars: frozenset[str]) -> frozenset[str]:
        return _fold(chars) if "i" in self.flags else chars

    def _literal(self, char: str) -> _Node:
        return _literal(char, "i" in self.flags)

    # Groups

    def _open(self) -> None:
        if len(self.groups) > _DEEPEST:
            raise PatternError(TOO_LARGE)
        if not self.text.startswith("(?", self.at):
            self.at += 1
            self.groups.append(_Group(self.flags))
        elif self.text.startswith(("(?P<", "(?<"), self.at):
            self._named(4 if self.text.startswith("(?P<", self.at) else 3)
        else:
            self._flags()

    def _named(self, prefix: int) -> None:
        end = self.text.find(">", self.at)
        name = self.text[self.at + prefix : end]
        if end < 0 or not _NAME.fullmatch(name):
            raise PatternError(BAD_NAME)
        if name in self.names:
            raise PatternError(SAME_NAME)
        self.names.add(name)
        self.at = end + 1
        self.groups.append(_Group(self.flags))

    def _flags(self) -> None:
        flags = set(self.flags)
        self.at += 2
        negative = False
        seen = False
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char in "imsU":
                seen = True
                (flags.discard if negative else flags.add)(char)
            elif char == "-" and not negative:
                negative, seen = True, False
            elif char in ":)" and (seen or not negative):
                if char == ":":
                    self.groups.append(_Group(self.flags))
                self.flags = frozenset(flags)
                return
            else:
                break
        raise PatternError(BAD_PERL)

    def _close(self) -> None:
        if len(self.groups) == 1:
            raise PatternError(UNEXPECTED_PAREN)
        self.at += 1
        group = self.groups.pop()
        self.flags = group.flags
        self._add(group.node())

    # Repetitions

    def _counted(self) -> None:
        found = _COUNTS.match(self.text, self.at)
        if found is None or any(len(part) > 9 for part in found.groups() if part):
            if found is not None:
                raise PatternError(BAD_REPEAT_SIZE)
            self.at += 1
            self._add(_Chars(_NOTHING))
            self.repeated_at = self.at  # RE2J treats it as an operator
            return
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if least > _MOST_REPEATS or (most is not None and (most > _MOST_REPEATS or most < least)):
            raise PatternError(BAD_REPEAT_SIZE)
        self.at = found.end()
        self._repeat(least, most)

    def _repeat(self, least: int, most: int | None) -> None:
        operator_at = self.at
        if self.text.startswith("?", self.at):
            self.at += 1  # non-greedy, which makes no difference here
        parts = self.groups[-1].parts
        if not parts:
            raise PatternError(NOTHING_TO_REPEAT)
        if self._repeats_directly(operator_at):
            raise PatternError(BAD_REPEAT)
        parts[-1] = _Repeat(parts[-1], least, most)
        self.repeated_at = self.at

    def _repeats_directly(self, operator_end: int) -> bool:
        """Whether the operator that ends here directly follows another one."""
        begin = (
            self.text.rfind("{", 0, operator_end) if self.text[operator_end - 1] == "}" else operator_end - 1
        )
        return begin == self.repeated_at

    # Characters

    def _escape(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        places = {"A": "start", "z": "end", "b": "border", "B": "inside"}
        if following in places:
            self.at += 2
            self._add(_Here(places[following]))
        elif following == "Q":
            end = self.text.find("\\E", self.at + 2)
            quoted = self.text[self.at + 2 : end if end >= 0 else None]
            self.at = len(self.text) if end < 0 else end + 2
            for char in quoted:
                self._add(self._literal(char))
        else:
            group = self._group_escape()
            self._add(self._literal(self._char_escape()) if group is None else _Chars(group))

    def _group_escape(self) -> frozenset[str] | None:
        r"""Parse a class with a letter, such as \d or \pN; return None if there is none here."""
        letter = self.text[self.at + 1 : self.at + 2]
        if letter.lower() in _PERL and letter:
            self.at += 2
            return _PERL[letter] if letter in _PERL else _ALPHABET - _PERL[letter.lower()]
        if letter not in ("p", "P"):
            return None
        start, negative = self.at + 2, letter == "P"
        if start >= len(self.text):
            raise PatternError(BAD_RANGE)
        name, self.at = self.text[start], start + 1
        if name == "{":
            end = self.text.find("}", start)
            if end < 0:
                raise PatternError(BAD_RANGE)
            name, self.at = self.text[start + 1 : end], end + 1
        if name.startswith("^"):
            name, negative = name[1:], not negative
        if name not in _UNICODE and name not in _OTHER_UNICODE:
            raise PatternError(BAD_RANGE)
        chars = self._fold(_UNICODE.get(name, _NOTHING))
        return _ALPHABET - chars if negative else chars

    def _char_escape(self) -> str:
        """Parse the character of an escape."""
        self.at += 1
        if self.at >= len(self.text):
            raise PatternError(TRAILING_BACKSLASH)
        char = self.text[self.at]
        self.at += 1
        if "0" <= char <= "7":
            # A single digit other than 0 would be a back reference.
            digits = char + (re.compile("[0-7]{0,2}").match(self.text, self.at) or "")[0]
            if len(digits) > 1 or char == "0":
                self.at += len(digits) - 1
                return chr(int(digits, 8))
        elif char == "x":
            return self._hexadecimal()
        elif char in _ESCAPES:
            return " "  # not an ASCII character, like all of these
        elif not (char.isascii() and char.isalnum()):
            return char
        raise PatternError(BAD_ESCAPE)

    def _hexadecimal(self) -> str:
        found = re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\}").match(self.text, self.at)
        if found is None:
            raise PatternError(BAD_ESCAPE)
        self.at = found.end()
        code = int(found[1] or found[2], 16)
        if code > 0x10FFFF:
            raise PatternError(BAD_ESCAPE)
        return chr(code)

    def _class(self) -> frozenset[str]:
        """Parse a class in brackets."""
        self.at += 1
        negative = self.text.startswith("^", self.at)
        self.at += negative
        chars: set[str] = set()
        is_first = True
        while is_first or not self.text.startswith("]", self.at):
            is_first = False
            if self.at >= len(self.text):
                raise PatternError(MISSING_BRACKET)
            chars |= self._class_item()
        self.at += 1
        return _ALPHABET - chars if negative else frozenset(chars)

    def _class_item(self) -> frozenset[str]:
        if self.may_have_posix and self.text.startswith("[:", self.at):
            end = self.text.find(":]", self.at + 2)
            self.may_have_posix = end >= 0
            if self.may_have_posix:
                name = self.text[self.at + 2 : end]
                known = _POSIX.get(name.removeprefix("^"))
                if known is None:
                    raise PatternError(BAD_RANGE)
                self.at = end + 2
                return _ALPHABET - known if name.startswith("^") else self._fold(known)
        if self.text.startswith("\\", self.at):
            group = self._group_escape()
            if group is not None:
                return group
        low = high = self._class_char()
        following = self.text[self.at : self.at + 2]
        if following.startswith("-") and following not in ("-", "-]"):
            self.at += 1
            high = self._class_char()
        if high < low:
            raise PatternError(BAD_RANGE)
        return _between(low, high, "i" in self.flags)

    def _class_char(self) -> str:
        if self.at >= len(self.text):
            raise PatternError(MISSING_BRACKET)
        if self.text[self.at] == "\\":
            return self._char_escape()
        self.at += 1
        return self.text[self.at - 1]


@lru_cache(maxsize=1024)
def _literal(char: str, ignores_case: bool) -> _Chars:
    if not ignores_case:
        return _Chars(frozenset(char) & _ALPHABET)
    return _Chars(_fold(frozenset(_FOLDED.get(char, char)) & _ALPHABET))


@lru_cache(maxsize=1024)
def _between(low: str, high: str, ignores_case: bool) -> frozenset[str]:
    """Return the characters of a range."""
    chars = {char for char in _ALPHABET if low <= char <= high}
    if not ignores_case:
        return frozenset(chars)
    chars |= {letter for char, letter in _FOLDED.items() if low <= char <= high}
    return _fold(frozenset(chars))


@lru_cache(maxsize=1024)
def _fold(chars: frozenset[str]) -> frozenset[str]:
    return chars | {char.swapcase() for char in chars}


# ---- matching -------------------------------------------------------------------------------------------------


class _Automaton:
    """States with edges: some read a character, others need none, but may require a position."""

    def __init__(self) -> None:
        self._chars: list[tuple[frozenset[str], int] | None] = []
        self._free: list[list[tuple[str, int]]] = []
        self._start, self._end = self._state(), self._state()
        self._unbuilt: list[tuple[_Node, int, int]] = []
        self._steps: dict[tuple[frozenset[int], bool, str, bool], frozenset[int]] = {}
        self._kept = self._cost = 0

    def _state(self) -> int:
        self._chars.append(None)
        self._free.append([])
        return len(self._chars) - 1

    def build(self, node: _Node) -> Generator[int, None, None]:
        """Build the states; yield the cost."""
        self._unbuilt.append((node, self._start, self._end))
        built = 0
        while self._unbuilt:
            self._build(*self._unbuilt.pop())
            if len(self._chars) - built >= _STATES_A_STEP:
                yield _COST_OF_BUILDING * (len(self._chars) - built)
                built = len(self._chars)
        yield _COST_OF_BUILDING * (len(self._chars) - built)

    def _build(self, node: _Node, begin: int, end: int) -> None:
        match node:
            case _Chars(allowed):
                middle = self._state()
                self._free[begin].append(("", middle))
                self._chars[middle] = allowed, end
            case _Here(kind):
                self._free[begin].append((kind, end))
            case _All(()):
                self._free[begin].append(("", end))
            case _All((part,)):
                self._unbuilt.append((part, begin, end))
            case _All(parts):  # by halves, so that no step is long
                half = len(parts) // 2
                middle = self._build_before(_All(parts[:half]), begin)
                self._unbuilt.append((_All(parts[half:]), middle, end))
            case _Any(choices):
                self._unbuilt += [(choice, begin, end) for choice in choices]
            case _Repeat(part, least, most):
                self._build_repeat(part, least, most, begin, end)

    def _build_before(self, part: _Node, begin: int) -> int:
        """Build a part that is followed by another; return the state after it."""
        following = self._state()
        self._unbuilt.append((part, begin, following))
        return following

    def _build_repeat(self, part: _Node, least: int, most: int | None, begin: int, end: int) -> None:
        for _ in range(least):
            begin = self._build_before(part, begin)
        if most is None:
            loop = self._state()
            self._free[begin].append(("", loop))
            after = self._build_before(part, loop)
            self._free[after].append(("", loop))
            self._free[loop].append(("", end))
            return
        for _ in range(most - least):
            self._free[begin].append(("", end))
            begin = self._build_before(part, begin)
        self._free[begin].append(("", end))

    def accepts(self, name: str) -> Generator[int, None, bool]:
        """Return whether the whole `name` matches; yield the cost, at least once."""
        states = frozenset((self._start,))
        is_word = False
        for at, char in enumerate(name):
            states = self._step(states, is_word, char, at == 0)
            if not states:
                break
            is_word = char in _WORD
            if self._cost >= _STATES_A_STEP:
                yield self._take_cost()
        accepted = bool(states) and self._end in self._reachable(states, is_word, "", not name)
        yield self._take_cost()
        return accepted

    def _take_cost(self) -> int:
        cost, self._cost = self._cost, 0
        return cost

    def _step(self, states: frozenset[int], is_word: bool, char: str, is_start: bool) -> frozenset[int]:
        self._cost += 1
        key = states, is_word, char, is_start
        known = self._steps.get(key)
        if known is None:
            edges = (self._chars[state] for state in self._reachable(*key))
            known = frozenset(edge[1] for edge in edges if edge is not None and char in edge[0])
            if self._kept >= _MOST_STATES_KEPT:
                self._steps.clear()
                self._kept = 0
            self._steps[key] = known
            self._kept += _KEPT_STEP + len(known)
        return known

    def _reachable(self, states: Iterable[int], is_word: bool, char: str, is_start: bool) -> set[int]:
        """Return the states reachable without reading a character; `char` is the next character, "" at the end."""
        is_border = is_word != (char in _WORD if char else False)
        holds: dict[str, Callable[[], bool]] = {
            "": lambda: True,
            "start": lambda: is_start,
            "end": lambda: not char,
            "border": lambda: is_border,
            "inside": lambda: not is_border,
        }
        found = set(states)
        stack = list(found)
        while stack:
            for kind, state in self._free[stack.pop()]:
                if state not in found and holds[kind]():
                    found.add(state)
                    stack.append(state)
        self._cost += len(found)
        return found
