"""Checks of single values of a configuration."""

from typing import NamedTuple


class Listener(NamedTuple):
    """An address from `listeners` or `advertised.listeners`; an empty host means every interface."""

    host: str
    port: int


def parse_listener(text: str) -> Listener:
    """Parse PLAINTEXT://HOST:PORT; an IPv6 host must be in brackets. Raises ValueError."""
    name, separator, address = text.partition("://")
    if not separator or name.upper() != "PLAINTEXT":
        raise ValueError(f"only PLAINTEXT://HOST:PORT is served, not {text}")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"no port in {text}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return Listener(host, int(port))


def one_listener(texts: tuple[str, ...]) -> str | None:
    """Return why a list of listeners is refused, or None."""
    if len(texts) != 1:
        return "exactly one listener is served"
    try:
        parse_listener(texts[0])
    except ValueError as error:
        return str(error)
    return None


def known_assignors(names: tuple[str, ...]) -> str | None:
    """Return why a list of assignors is refused, or None."""
    if not names or set(names) - {"uniform", "range"}:
        return "uniform and range are served, and at least one is needed"
    return None if len(set(names)) == len(names) else "no assignor may be there twice"


def known_policy(name: str) -> str | None:
    """Return why a migration policy is refused, or None."""
    policies = ("bidirectional", "upgrade", "downgrade", "disabled")
    return None if name.lower() in policies else f"one of {', '.join(policies)} is needed"


def one_directory(texts: tuple[str, ...]) -> str | None:
    """Return why a list of directories is refused, or None."""
    return None if len(texts) == 1 else "exactly one directory is used"
