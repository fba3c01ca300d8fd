"""Settings that apply at every broker of a cluster: configurations of groups, quotas, SCRAM credentials and ACLs."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from kafka_offsets.security.acls import AclBinding

K = TypeVar("K")
V = TypeVar("V")


class Credential(NamedTuple):
    """The SCRAM credential of one user for one mechanism, as a store returns it."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Show no secret: logs and tracebacks show values."""
        return f"Credential(iterations={self.iterations}, …)"


class Settings(NamedTuple):
    """The settings of a cluster, or a change of them: there an empty value, or None, removes a setting.

    groups       the configuration of each group, by Kafka's keys
    quotas       by entity and key
    credentials  by user and number of the mechanism; they are secret. Each has the fields of `Credential`
    acls         each is True; in a change False, which removes it
    """

    groups: Mapping[str, Mapping[str, str]] = {}
    quotas: Mapping[frozenset[tuple[str, str | None]], Mapping[str, float]] = {}
    credentials: Mapping[tuple[str, int], tuple[int, bytes, bytes, bytes] | None] = {}
    acls: Mapping[AclBinding, bool] = {}

    def changed(self, changes: "Settings") -> "Settings":
        """Return these settings after a change."""
        return Settings(
            _merged(self.groups, changes.groups),
            _merged(self.quotas, changes.quotas),
            _merged(self.credentials, changes.credentials),
            _merged(self.acls, changes.acls),
        )


def _merged(before: Mapping[K, V], changes: Mapping[K, V]) -> Mapping[K, V]:
    if not changes:
        return before
    return {key: value for key, value in (dict(before) | dict(changes)).items() if value}
