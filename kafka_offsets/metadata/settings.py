"""Settings of all brokers of a cluster: of groups, quotas, SCRAM credentials, ACLs and delegation tokens."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from kafka_offsets.security.acls import AclBinding
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.security.delegation_token import DelegationToken

K = TypeVar("K")
V = TypeVar("V")


class ClusterSettings(NamedTuple):
    """The settings of a cluster, or a change of them: there an empty value, or None, removes a setting.

    groups       the configuration of each group, by Kafka's keys
    quotas       by entity and key
    credentials  by user and number of the mechanism; they are secret.
    acls         each is True; in a change False, which removes it
    tokens       delegation tokens by id
    """

    groups: Mapping[str, Mapping[str, str]] = {}
    quotas: Mapping[frozenset[tuple[str, str | None]], Mapping[str, float]] = {}
    credentials: Mapping[tuple[str, int], ScramCredential | None] = {}
    acls: Mapping[AclBinding, bool] = {}
    tokens: Mapping[str, DelegationToken | None] = {}

    def changed(self, changes: "ClusterSettings") -> "ClusterSettings":
        """Return these settings after a change."""
        return ClusterSettings(
            _merged(self.groups, changes.groups),
            _merged(self.quotas, changes.quotas),
            _merged(self.credentials, changes.credentials),
            _merged(self.acls, changes.acls),
            _merged(self.tokens, changes.tokens),
        )


def _merged(before: Mapping[K, V], changes: Mapping[K, V]) -> Mapping[K, V]:
    if not changes:
        return before
    return {key: value for key, value in (dict(before) | dict(changes)).items() if value}
