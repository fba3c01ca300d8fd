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
    """Return the options of the login module of a mechanism, in the section of a listener; none without the module.

    Raises ConfigError, which shows no options: they contain passwords.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"java.security.auth.login.config: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"java.security.auth.login.config: {path}: not UTF-8 at byte {error.start}"
        ) from error
    own = f"{listener.lower()}.{_SECTION}"
    sections = _sections(text, path)
    modules = sections.get(own, sections.get(_SECTION))
    if modules is None:
        raise ConfigError(f"Could not find a '{_SECTION}' or '{own}' entry in the JAAS configuration {path}")
    for module in modules:
        if module.split(maxsplit=1)[0] == _MODULES[mechanism]:
            try:
                return jaas_options(module)
            except ConfigError as error:
                raise ConfigError(f"{path}: a login module of {_MODULES[mechanism]}: {error}") from None
    return {}


def _sections(text: str, path: str) -> dict[str, list[str]]:
    """Return the login modules of each section, each with its semicolon, without comments."""
    found: dict[str, list[str]] = {}
    modules: list[str] | None = None
    for statement, sign in _statements(text):
        if sign == "{" and modules is None and statement:
            modules = found.setdefault(statement.strip("\"'"), [])
        elif sign == ";" and modules is not None and statement:
            modules.append(f"{statement};")
        elif sign == "}" and modules is not None and not statement:
            modules = None
        elif sign != ";" or statement:
            raise ConfigError(f"{path}: a section is NAME {{ module required option=value …; }};")
    if modules is not None:
        raise ConfigError(f"{path}: the last section has no }}")
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
