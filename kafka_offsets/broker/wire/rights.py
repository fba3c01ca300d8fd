"""Rights: what the sender of a request must be allowed to do before it is decided, as its API states it.

These are the rights to the whole request, and to each group or topic that is then served or refused by itself. What
else an API touches its handler knows, and asks the sender of its context.
Sources: KafkaApis and ControllerApis of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from kafka_offsets.security.authorizer import DENIALS

NamesOf = Callable[[Any, int], Sequence[str | None]]
"""(request, API version) -> the names of resources; nobody has a right to None."""


class Right(NamedTuple):
    """An operation on the cluster, or on what a request names.

    names  of the resources: the field of the request that has them, or a function; "" where the API says which
    """

    operation: AclOperation
    resource_type: ResourceType
    names: str | NamesOf = ""

    @property
    def error(self) -> ErrorCode:
        """The error of a sender without this right."""
        return DENIALS[self.resource_type][0]

    def names_in(self, request: object, version: int) -> Sequence[str | None]:
        """Return the names of the resources in a request."""
        if not isinstance(self.names, str):
            return self.names(request, version)
        value = getattr(request, self.names) if self.names else CLUSTER_NAME
        if isinstance(value, str):
            return (value,)
        return sorted(set(value or ()))


class Rights(NamedTuple):
    """The rights that requests of an API need.

    whole       each of them, or the request is refused
    each        for each group, or topic, of the request: the others are refused one by one
    unless      a sender with this right needs none of the others
    message     what a refusal says beside its error
    by_handler  whether the handler of the API asks for further rights
    """

    whole: tuple[Right, ...] = ()
    each: Right | None = None
    unless: Right | None = None
    message: str | None = None
    by_handler: bool = False


def on_cluster(operation: AclOperation) -> Right:
    """Return the right to an operation on the cluster."""
    return Right(operation, ResourceType.CLUSTER)


def on_topics(operation: AclOperation) -> Right:
    """Return the right to an operation on topics that a request names."""
    return Right(operation, ResourceType.TOPIC)


_READ_GROUP = Right(AclOperation.READ, ResourceType.GROUP, "group_id")
_WRITE_TRANSACTION = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")

NONE = Rights()
BY_HANDLER = Rights(by_handler=True)
MEMBER = Rights((_READ_GROUP,))
SUBSCRIBER = Rights((_READ_GROUP, Right(AclOperation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names")))
COMMIT = Rights((_READ_GROUP,), each=on_topics(AclOperation.READ))
TRANSACTION = Rights((_WRITE_TRANSACTION,))
PRODUCER = Rights((_WRITE_TRANSACTION,), by_handler=True)
GROUP_IN_TRANSACTION = Rights((_WRITE_TRANSACTION, _READ_GROUP))
COMMIT_IN_TRANSACTION = Rights((_WRITE_TRANSACTION, _READ_GROUP), each=on_topics(AclOperation.READ))
DELETE_OFFSETS = Rights(
    (Right(AclOperation.DELETE, ResourceType.GROUP, "group_id"),), each=on_topics(AclOperation.READ)
)
DELETE_GROUPS = Rights(each=Right(AclOperation.DELETE, ResourceType.GROUP))
DESCRIBE_GROUPS = Rights(each=Right(AclOperation.DESCRIBE, ResourceType.GROUP), by_handler=True)
DESCRIBE_TRANSACTIONS = Rights(
    each=Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), by_handler=True
)
DESCRIBE_TOPICS = Rights(each=on_topics(AclOperation.DESCRIBE))
READ_TOPICS = Rights(each=on_topics(AclOperation.READ), message=DENIALS[ResourceType.TOPIC][1])
DELETE_IN_TOPICS = Rights(each=on_topics(AclOperation.DELETE))
EPOCHS = Rights(each=on_topics(AclOperation.DESCRIBE), unless=on_cluster(AclOperation.CLUSTER_ACTION))
MARKERS = Rights((on_cluster(AclOperation.CLUSTER_ACTION),), unless=on_cluster(AclOperation.ALTER))
DESCRIBE_CLUSTER = Rights((on_cluster(AclOperation.DESCRIBE),))
DESCRIBE_BY_CONTROLLER = DESCRIBE_CLUSTER._replace(message="The request needs DESCRIBE permission.")
ALTER_CLUSTER = Rights((on_cluster(AclOperation.ALTER),))
ALTER_BY_CONTROLLER = ALTER_CLUSTER._replace(message="The request needs ALTER permission.")
DESCRIBE_CONFIGS = Rights((on_cluster(AclOperation.DESCRIBE_CONFIGS),))
ALTER_CONFIGS = Rights((on_cluster(AclOperation.ALTER_CONFIGS),), message=DENIALS[ResourceType.CLUSTER][1])
