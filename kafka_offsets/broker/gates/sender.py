"""The sender of a request, as the authorizer sees it."""

from __future__ import annotations

from typing import NamedTuple

from kafka_offsets.broker.wire.rights import Right
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.logs import new_logger
from kafka_offsets.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.security.principal import Principal

logger = new_logger(__name__)


class Sender(NamedTuple):
    """A principal at a host, such as "127.0.0.1", and the authorizer."""

    authorizer: Authorizer
    principal: Principal
    host: str

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Return whether the sender has a right; a denied one is logged."""
        allowed = self.sees(right, name)
        if not allowed:
            # Kafka logs these at the level INFO.
            logger.info(
                "%s is denied %s on %s %r from %s",
                self.principal,
                right.operation.name,
                right.resource_type.name,
                name,
                self.host,
            )
        return allowed

    def sees(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Return whether the sender has a right that it has not asked for: what it lacks is hidden, and not logged."""
        return self.authorizer.allows(self.principal, self.host, right.operation, right.resource_type, name)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the sender may do with a resource, as bits (KIP-430)."""
        return self.authorizer.operations(self.principal, self.host, resource_type, name)

    def may_on_some(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the sender may do an operation with some resource of a type."""
        return self.authorizer.allows_some(self.principal, self.host, operation, resource_type)


def sender_of(authorizer: Authorizer, context: RequestContext) -> Sender:
    """Return the sender of a request."""
    return Sender(authorizer, context.principal, context.client_host.removeprefix("/"))
