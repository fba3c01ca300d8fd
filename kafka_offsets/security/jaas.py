"""JAAS: reads the values of Kafka's keys `sasl.jaas.config`, one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" user_alice='her password';

Sources: JaasConfig.java and JaasContext.java of Kafka, which split the text by java.io.StreamTokenizer of the JDK.

JAAS file: what Java's system property java.security.auth.login.config names, sections of login modules.

    KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required
        user_alice="secret";
    };

A broker reads the section NAME.KafkaServer of a listener, its name in lower case, or else KafkaServer.
Sources: JaasContext.java and PlainServerCallbackHandler.java of Kafka, sun.security.provider.ConfigFile of the JDK.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.texts import TextError, read_text

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
        token_text = match[0]
        if match["word"]:
            tokens.append(_Token(text=token_text))
        elif match["quote"]:
            quoted = _QUOTED[token_text].match(text, position)
            assert quoted is not None, "an empty string matches"
            position = quoted.end()
            tokens.append(_Token(text=_ESCAPE.sub(_unescaped, quoted[1])))
        elif match["number"]:
            tokens.append(_Token())
        elif match["sign"]:
            tokens.append(_Token(sign=token_text))
    return tokens


def _unescaped(escape: re.Match[str]) -> str:
    octal, character = escape.groups()
    return chr(int(octal, 8)) if octal else _ESCAPED.get(character, character)


def _refused(why: str) -> ConfigError:
    return ConfigError(f"sasl.jaas.config cannot be read: {why}")


_PART = re.compile(
    r"""(?P<comment> /\*.*?(?:\*/|\Z) | /[^\r\n]* )
    | (?P<sign> [{};])
    | (?P<text> "(?:[^"\\\r\n]|\\.)*"? | '(?:[^'\\\r\n]|\\.)*'? | [^{};/"']+ )
    """,
    re.DOTALL | re.VERBOSE,
)
_OF_KAFKA = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_OF_KAFKA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_OF_KAFKA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_OF_KAFKA}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_OF_KAFKA}.oauthbearer.OAuthBearerLoginModule",
}
_SECTION = "KafkaServer"


def options_of_file(path: str, listener: str, mechanism: str) -> dict[str, str]:
    """Return the options of the login modules of a mechanism, in the section of a listener; none without a module.

    The first of several values of an option counts. An empty section is none.

    Raises ConfigError, which shows no options: they contain passwords.
    """
    try:
        text = read_text(Path(path))
    except TextError as error:
        raise ConfigError(f"java.security.auth.login.config: {error}") from error
    own_section = f"{listener.lower()}.{_SECTION}"
    sections = _sections(text, path)
    modules = sections.get(own_section) or sections.get(_SECTION)
    if not modules:
        raise ConfigError(
            f"Could not find a '{_SECTION}' or '{own_section}' entry in the JAAS configuration {path}"
        )
    options: dict[str, str] = {}
    for module in modules:
        if module.split(maxsplit=1)[0] == _MODULES[mechanism]:
            options = _options(module, path) | options
    return options


def _options(module: str, path: str) -> dict[str, str]:
    try:
        options = jaas_options(module)
    except ConfigError as error:
        raise ConfigError(f"{path}: a login module {module.split(maxsplit=1)[0]}: {error}") from None
    for name, value in options.items():
        if "${" in value:
            raise ConfigError(f"{path}: the option {name} names a property of Java: write its value instead")
    return options


def _sections(text: str, path: str) -> dict[str, list[str]]:
    """Return the login modules of each section, each with its semicolon, without comments."""
    modules_by_section: dict[str, list[str]] = {}
    modules: list[str] | None = None
    is_ended = True
    for statement, sign in _statements(text):
        name = statement.strip("\"'")
        if sign == "{" and modules is None and is_ended and name and name not in modules_by_section:
            modules, is_ended = modules_by_section.setdefault(name, []), False
        elif sign == ";" and modules is not None and statement:
            modules.append(f"{statement};")
        elif sign == "}" and modules is not None and not statement:
            modules = None
        elif sign == ";" and modules is None and not is_ended and not statement:
            is_ended = True
        elif name in modules_by_section:
            raise ConfigError(f"{path}: there are two sections {name}")
        else:
            raise ConfigError(f"{path}: a section is NAME {{ module required option=value …; }};")
    if not is_ended:
        raise ConfigError(f"{path}: the last section does not end with }};")
    return modules_by_section


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before each brace and semicolon, and the sign; at the end what is left, with an empty one."""
    parts: list[str] = []
    for match in _PART.finditer(text):
        if match["sign"]:
            yield "".join(parts).strip(), match["sign"]
            parts.clear()
        else:
            parts.append(match["text"] or " ")
    if left := "".join(parts).strip():
        yield left, ""
