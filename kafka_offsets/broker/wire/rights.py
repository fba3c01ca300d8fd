"""Rights: what the sender of a request must be allowed to do, as the row of its API states it.

Most APIs are covered by these words: a right for the whole request, one for each group or topic that it names, one that
makes the others unnecessary, one for each element of the response. `special_rows` has the rules of the other APIs.
Sources: KafkaApis and ControllerApis of Kafka 4.3.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.security.acls import AclOperation, ResourceType

DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of what may not be done, by type of the resource."""


class Right(NamedTuple):
    """An operation on a resource, or on each of several.

    field  of the request, with the name of the resource; "" for the cluster, and for what a request names several of
    """

    operation: AclOperation
    resource_type: ResourceType
    field: str = ""

    @property
    def error(self) -> ErrorCode:
        """The error of a sender without this right."""
        return DENIED[self.resource_type]


class Hidden(NamedTuple):
    """Elements of a response that a sender without a right does not see.

    array, field  of the response: the elements, and the name of the resource in each
    """

    array: str
    field: str
    right: Right


class Rights(NamedTuple):
    """The rights that requests of an API need.

    whole       each of them, or the request is refused
    each        for each group, or topic, of the request: the others are refused one by one
    unless      a sender with this right needs none of the others
    hidden      what is left out of the response
    message     what a refusal says beside its error
    is_special  there are rules that cannot be said here: `special_rows` has them
    """

    whole: tuple[Right, ...] = ()
    each: Right | None = None
    unless: Right | None = None
    hidden: Hidden | None = None
    message: str | None = None
    is_special: bool = False


def on_cluster(operation: AclOperation) -> Right:
    """Return the right to an operation on the cluster."""
    return Right(operation, ResourceType.CLUSTER)


def on_topics(operation: AclOperation) -> Right:
    """Return the right to an operation on topics that a request names."""
    return Right(operation, ResourceType.TOPIC)


_READ_GROUP = Right(AclOperation.READ, ResourceType.GROUP, "group_id")
_WRITE_TRANSACTION = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
_DESCRIBE_GROUP = Right(AclOperation.DESCRIBE, ResourceType.GROUP)
_DESCRIBE_TRANSACTION = Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)

NONE = Rights()
SPECIAL = Rights(is_special=True)
MEMBER = Rights((_READ_GROUP,))
COMMIT = Rights((_READ_GROUP,), each=on_topics(AclOperation.READ))
TRANSACTION = Rights((_WRITE_TRANSACTION,))
GROUP_IN_TRANSACTION = Rights((_WRITE_TRANSACTION, _READ_GROUP))
COMMIT_IN_TRANSACTION = Rights((_WRITE_TRANSACTION, _READ_GROUP), each=on_topics(AclOperation.READ))
DELETE_OFFSETS = Rights(
    (Right(AclOperation.DELETE, ResourceType.GROUP, "group_id"),), each=on_topics(AclOperation.READ)
)
DELETE_GROUPS = Rights(each=Right(AclOperation.DELETE, ResourceType.GROUP))
LIST_GROUPS = Rights(
    unless=on_cluster(AclOperation.DESCRIBE), hidden=Hidden("groups", "group_id", _DESCRIBE_GROUP)
)
DESCRIBE_GROUPS = Rights(each=_DESCRIBE_GROUP, is_special=True)
LIST_TRANSACTIONS = Rights(hidden=Hidden("transaction_states", "transactional_id", _DESCRIBE_TRANSACTION))
DESCRIBE_TRANSACTIONS = Rights(each=_DESCRIBE_TRANSACTION, is_special=True)
DESCRIBE_TOPICS = Rights(each=on_topics(AclOperation.DESCRIBE))
READ_TOPICS = Rights(each=on_topics(AclOperation.READ), message="Topic authorization failed.")
DELETE_IN_TOPICS = Rights(each=on_topics(AclOperation.DELETE))
EPOCHS = Rights(each=on_topics(AclOperation.DESCRIBE), unless=on_cluster(AclOperation.CLUSTER_ACTION))
MARKERS = Rights((on_cluster(AclOperation.CLUSTER_ACTION),), unless=on_cluster(AclOperation.ALTER))
DESCRIBE_CLUSTER = Rights((on_cluster(AclOperation.DESCRIBE),))
DESCRIBE_BY_CONTROLLER = DESCRIBE_CLUSTER._replace(message="The request needs DESCRIBE permission.")
ALTER_CLUSTER = Rights((on_cluster(AclOperation.ALTER),))
ALTER_BY_CONTROLLER = ALTER_CLUSTER._replace(message="The request needs ALTER permission.")
DESCRIBE_CONFIGS = Rights((on_cluster(AclOperation.DESCRIBE_CONFIGS),))
ALTER_CONFIGS = Rights((on_cluster(AclOperation.ALTER_CONFIGS),), message="Cluster authorization failed.")
