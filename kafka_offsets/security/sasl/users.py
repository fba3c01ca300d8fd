"""Users: the names and passwords of a value of `sasl.users`, and the text for them."""

import re
from collections.abc import Mapping

from kafka_offsets.errors import ConfigError

_PAIR = re.compile(r"((?:[^\\,=]|\\.)*)=((?:[^\\,]|\\.)*)(?:,|$)", re.DOTALL)


def parse_users(text: str) -> dict[str, str]:
    """Return the users of a value of `sasl.users` with their passwords. Raises ConfigError, which shows none."""
    passwords: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None or not match[1] or not match[2]:
            raise ConfigError("sasl.users: NAME=PASSWORD is needed, separated by commas, not this value")
        name, password = (re.sub(r"\\(.)", r"\1", part) for part in match.groups())
        if passwords.setdefault(name.strip(), password) != password:
            raise ConfigError(f"sasl.users: {name.strip()} has two passwords")
        position = match.end()
    return passwords


def users_text(users: Mapping[str, str]) -> str:
    """Return the value of `sasl.users` for these users."""

    def escaped(text: str) -> str:
        return re.sub(r"([\\,=])", r"\\\1", text)

    return ",".join(f"{escaped(name)}={escaped(password)}" for name, password in users.items())
