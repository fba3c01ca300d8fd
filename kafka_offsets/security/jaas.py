"""JAAS: reads the values of Kafka's keys `sasl.jaas.config`, one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" user_alice='her password';

Sources: JaasConfig.java and JaasContext.java of Kafka, which split the text by java.io.StreamTokenizer of the JDK.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kafka_offsets.errors import ConfigError

_FLAGS = ("required", "requisite", "sufficient", "optional")

# What StreamTokenizer finds at a position, in its order, as JaasConfig configures it. A comment begins with one slash,
# and has the character after it, whatever that is.
# A quote also ends where its line does, or the text.
_TOKEN = re.compile(
    r"""
    (?P<skipped> [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /(?:[^*][^\r\n]*)? )
    | (?P<number> -?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*) )
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]* )
    | (?P<quote> ["'])
    | (?P<sign> .)
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTED = {quote: re.compile(rf"((?:[^{quote}\\\r\n]|\\.)*){quote}?", re.DOTALL) for quote in "\"'"}
_ESCAPE = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Token(NamedTuple):
    """A part of the text: its sign if it is one, else its characters. Both are empty for a number."""

    sign: str = ""
    text: str | None = None


def jaas_options(text: str) -> dict[str, str]:
    """Return the options of the one login module that a value of `sasl.jaas.config` names.

    Raises ConfigError, which shows nothing of the value: it contains passwords.
    """
    tokens = _tokens(text)
    if len(tokens) < 2 or not tokens[0].text or (tokens[1].text or "").lower() not in _FLAGS:
        raise _refused("a module, required, options and a semicolon are needed")
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position].sign != ";":
        name, equals, value = (*tokens[position : position + 3], _Token(), _Token())[:3]
        if name.text is None or equals.sign != "=" or value.text is None:
            raise _refused(
                "each option is NAME=VALUE; a value that begins with a digit or has other signs needs quotes"
            )
        options[name.text] = value.text
        position += 3
    if position == len(tokens):
        raise _refused("no semicolon ends it, or a quote is not closed")
    if position + 1 < len(tokens):
        raise _refused("it has more than one login module, or text after the semicolon")
    return options


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        found = match[0]
        if match["word"]:
            tokens.append(_Token(text=found))
        elif match["quote"]:
            quoted = _QUOTED[found].match(text, position)
            assert quoted is not None, "an empty string matches"
            position = quoted.end()
            tokens.append(_Token(text=_ESCAPE.sub(_unescaped, quoted[1])))
        elif match["number"]:
            tokens.append(_Token())
        elif match["sign"]:
            tokens.append(_Token(sign=found))
    return tokens


def _unescaped(escape: re.Match[str]) -> str:
    octal, character = escape.groups()
    return chr(int(octal, 8)) if octal else _ESCAPED.get(character, character)


def _refused(why: str) -> ConfigError:
    return ConfigError(f"sasl.jaas.config cannot be read: {why}")
