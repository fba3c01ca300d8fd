r"""Regular expressions of consumer groups and of ListTransactions: which names match.

Kafka uses RE2J, the port of RE2 to Java; this is RE2. It reads a name in time proportional to its length, without
backtracking. What RE2 and RE2J read differently is translated here, as far as it is not a bug of RE2J, and an
invalid expression is refused in the words of RE2J. A client chooses the expression before it has logged in: its length,
its repetitions and the memory of its program have limits, so that creating and matching it takes tens of milliseconds.
Source: RE2J 1.8, Parser; TopicRegexResolver and Utils.throwIfRegularExpressionIsInvalid of Kafka 4.4.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

_LONGEST = 10_000
"""Maximum length of an expression, in characters; RE2J has no limit."""

_MOST_REPETITIONS = 3000
"""Maximum number of repetitions: `a?` has one, `a{7}` seven. RE2 creates runs of optional parts in quadratic time."""

_WEIGHT_OF_UNICODE_CLASS = 30
r"""How many repetitions a class such as \pL counts as: RE2 reads hundreds of ranges for it."""

_MAX_MEMORY = 384 << 10
"""What RE2 may use for the program of an expression and for the states that it meets: about 28,000 instructions."""

_COST_OF_INSTRUCTION = 50
"""The cost of creating an instruction, in executed instructions."""

_COST_OF_NAME = 500
"""The cost of matching any name, in executed instructions."""

_MOST_REPEATS = 1000

_TOKEN = re.compile(
    r"""
    \\Q.*?(?:\\E|\Z) | (?P<byte>\\C) | (?P<unicode>\\[pP]) | \\x\{\w*\} | \\.
    | (?P<classes>(?:\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])+)
    | \(\?P?<(?P<name>\w+)>
    | \{(?P<least>\d+)(?:,(?P<most>\d*))?\} | (?P<repetitions>[*+?]+)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
"""The parts of an expression that RE2 and RE2J read differently, that cost much, or in which these have no meaning."""

BAD_REPEAT_SIZE = "invalid repeat count"
BAD_NAME = "invalid named capture"
BAD_ESCAPE = "invalid escape sequence"
BAD_PERL = "invalid or unsupported Perl syntax"
SAME_NAME = "duplicate capture group name"
TOO_LARGE = "expression is too large"

_DESCRIPTIONS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class range": "invalid character class range",
    "invalid UTF-8": BAD_ESCAPE,  # an escape that ends too early; the expression is UTF-8
    "invalid escape sequence": BAD_ESCAPE,
    "invalid named capture group": BAD_NAME,
    "invalid perl operator": BAD_PERL,
    "invalid repetition size": TOO_LARGE,  # (a{100}){100}: each is valid, but not both together
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": TOO_LARGE,
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""What RE2 says of an invalid expression, and what RE2J says. Other words remain as they are."""


class PatternError(ValueError):
    """An invalid expression; the message is that of RE2J, without the expression."""


class Pattern:
    """A regular expression that must match whole names.

    cost  what creating it has cost, in executed instructions, a few nanoseconds each
    """

    def __init__(self, expression: str) -> None:
        """Compile `expression`; raise PatternError if it is not valid, or too large."""
        if len(expression) > _LONGEST:
            raise PatternError(TOO_LARGE)
        self._compiled = _compile(_translate(expression))
        self._size: int = self._compiled.programsize
        self.cost = self._size * _COST_OF_INSTRUCTION

    def matches(self, name: str) -> bool:
        """Return whether it matches the whole name."""
        return self._compiled.fullmatch(_encode(name)) is not None

    def cost_of(self, name: str) -> int:
        """Return what `matches` costs at most."""
        return self._size * len(name) + _COST_OF_NAME


def _translate(expression: str) -> bytes:
    r"""Return what RE2 reads as RE2J reads the expression; raise PatternError where RE2 would accept too much.

    Groups have no names in it: RE2 would record where each of them matches, which takes hundreds of milliseconds.
    """
    names: set[str] = set()
    repetitions = 0

    def translate(token: re.Match[str]) -> str:
        nonlocal repetitions
        text = token[0]
        if token["byte"]:
            raise PatternError(BAD_ESCAPE)
        if token["name"]:
            if token["name"] in names:
                raise PatternError(SAME_NAME)
            names.add(token["name"])
            return "("
        if token["least"]:
            repetitions += _repeats(token["least"], token["most"])
        elif token["repetitions"]:
            repetitions += len(text)
        elif token["unicode"] or token["classes"]:
            repetitions += _WEIGHT_OF_UNICODE_CLASS * (text.count("\\p") + text.count("\\P"))
        return text

    translated = _TOKEN.sub(translate, expression)
    if repetitions > _MOST_REPETITIONS:
        raise PatternError(TOO_LARGE)
    return _encode(translated)


def _repeats(least: str, most: str | None) -> int:
    counts = [int(count) for count in (least, most) if count]
    if max(counts) > _MOST_REPEATS or counts != sorted(counts):
        raise PatternError(BAD_REPEAT_SIZE)
    return counts[-1]


def _compile(expression: bytes) -> re2._Regexp[bytes]:
    import re2  # here, because most brokers see no expression

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        (message,) = error.args
        reason, _, part = message.decode(errors="replace").partition(": ")
        description = _DESCRIPTIONS.get(reason, reason)
        if description == BAD_PERL and (
            part.startswith("(?<") or (part == "(?P" and expression.endswith(b"(?P<"))
        ):
            description = BAD_NAME
        raise PatternError(description) from error
    finally:
        re2.purge()  # it would keep the last 128 of them
    if compiled.groups:  # a name that is not ASCII
        raise PatternError(BAD_NAME)
    return compiled


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
