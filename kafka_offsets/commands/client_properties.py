"""`--command-config FILE`: the client properties of Kafka's scripts, those with an effect here and those without."""

import sys
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.errors import ConfigError

_TIMEOUTS = ("request.timeout.ms", "default.api.timeout.ms")
_PROTOCOL = "security.protocol"


class ClientProperties(NamedTuple):
    """What a properties file says. timeout_ms: for connecting and for each response; None if it is not in the file."""

    timeout_ms: int | None = None


def read_client_properties(path: Path) -> ClientProperties:
    """Read a file of client properties; names the keys without effect in one line of standard error.

    ConfigError for a file that cannot be read, a wrong number, and a security.protocol other than PLAINTEXT: a broker
    that expects TLS or a password would not answer.
    """
    found = {each.key: each.value for each in read_properties(path)}
    protocol = found.pop(_PROTOCOL, "PLAINTEXT").strip()
    if protocol.upper() != "PLAINTEXT":
        raise ConfigError(f"{path}: {_PROTOCOL} is {protocol}: only PLAINTEXT is supported")
    timeouts = [_milliseconds(path, key, found.pop(key)) for key in _TIMEOUTS if key in found]
    if found:
        print(f"kafka-offsets: {path}: without effect here: {', '.join(sorted(found))}", file=sys.stderr)
    return ClientProperties(min(timeouts, default=None))


def _milliseconds(path: Path, key: str, text: str) -> int:
    if text.strip().isascii() and text.strip().isdigit() and 0 < int(text) < 1 << 31:
        return int(text)
    raise ConfigError(f"{path}: {key} is {text}: a number of milliseconds is needed")
