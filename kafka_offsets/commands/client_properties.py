"""`--command-config FILE`: the client properties of Kafka's scripts, those with an effect here and those without."""

import sys
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.client.security import ClientSecurity, take_security
from kafka_offsets.errors import ConfigError

_TIMEOUTS = ("request.timeout.ms", "default.api.timeout.ms")


class ClientProperties(NamedTuple):
    """What a properties file says.

    timeout_ms  for connecting and for each response; None if it is not in the file
    security    TLS and SASL; None: PLAINTEXT
    """

    timeout_ms: int | None = None
    security: ClientSecurity | None = None


def read_client_properties(path: Path) -> ClientProperties:
    """Read a file of client properties; names the keys without effect in one line of standard error.

    ConfigError for a file that cannot be read, a wrong number, and what cannot be used of TLS and SASL.
    """
    found = {each.key: each.value for each in read_properties(path)}
    try:
        security = take_security(found)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    timeouts = [_milliseconds(path, key, found.pop(key)) for key in _TIMEOUTS if key in found]
    if found:
        print(f"kafka-offsets: {path}: without effect here: {', '.join(sorted(found))}", file=sys.stderr)
    return ClientProperties(min(timeouts, default=None), security)


def _milliseconds(path: Path, key: str, text: str) -> int:
    if text.strip().isascii() and text.strip().isdigit() and 0 < int(text) < 1 << 31:
        return int(text)
    raise ConfigError(f"{path}: {key} is {text}: a number of milliseconds is needed")
