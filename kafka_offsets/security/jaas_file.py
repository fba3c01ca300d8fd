"""JAAS file: what Java's system property java.security.auth.login.config names, sections of login modules.

    KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required
        user_alice="secret";
    };

A broker reads the section NAME.KafkaServer of a listener, its name in lower case, or else KafkaServer.
Sources: JaasContext.java and PlainServerCallbackHandler.java of Kafka, sun.security.provider.ConfigFile of the JDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.jaas import jaas_options
from kafka_offsets.texts import TextError, read_text

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
    own = f"{listener.lower()}.{_SECTION}"
    sections = _sections(text, path)
    modules = sections.get(own) or sections.get(_SECTION)
    if not modules:
        raise ConfigError(f"Could not find a '{_SECTION}' or '{own}' entry in the JAAS configuration {path}")
    found: dict[str, str] = {}
    for module in modules:
        if module.split(maxsplit=1)[0] == _MODULES[mechanism]:
            found = _options(module, path) | found
    return found


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
    found: dict[str, list[str]] = {}
    modules: list[str] | None = None
    is_ended = True
    for statement, sign in _statements(text):
        name = statement.strip("\"'")
        if sign == "{" and modules is None and is_ended and name and name not in found:
            modules, is_ended = found.setdefault(name, []), False
        elif sign == ";" and modules is not None and statement:
            modules.append(f"{statement};")
        elif sign == "}" and modules is not None and not statement:
            modules = None
        elif sign == ";" and modules is None and not is_ended and not statement:
            is_ended = True
        elif name in found:
            raise ConfigError(f"{path}: there are two sections {name}")
        else:
            raise ConfigError(f"{path}: a section is NAME {{ module required option=value …; }};")
    if not is_ended:
        raise ConfigError(f"{path}: the last section does not end with }};")
    return found


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
