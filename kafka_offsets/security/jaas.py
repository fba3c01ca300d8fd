"""JAAS: reads the values of Kafka's keys `sasl.jaas.config`, one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" user_alice="her password";

Source: JaasConfig.java, which uses java.io.StreamTokenizer: names are plain or in double quotes, in which a backslash
escapes a character.
"""

from __future__ import annotations

import re

from kafka_offsets.errors import ConfigError

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|([;=])|([^\s;="]+))""", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")


def jaas_options(text: str) -> dict[str, str]:
    """Return the options of the one login module that a value of `sasl.jaas.config` names.

    Raises ConfigError, which shows nothing of the value: it contains passwords.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise _refused("a module, required, options and a semicolon are needed")
    found: dict[str, str] = {}
    options = tokens[2:-1]
    if len(options) % 3 or any(sign != "=" for sign in options[1::3]):
        raise _refused("each option is NAME=VALUE")
    for name, value in zip(options[::3], options[2::3], strict=True):
        found[name] = value
    return found


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _refused("a quote is not closed")
        quoted, sign, plain = match.groups()
        found.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else sign or plain)
        position = match.end()
    return found


def _refused(why: str) -> ConfigError:
    return ConfigError(f"sasl.jaas.config cannot be read: {why}")
