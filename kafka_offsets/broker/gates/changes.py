"""Changes of responses: authorized operations, and what is not shown without the right to describe it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.gates.sender import Sender
from kafka_offsets.broker.gates.token_rows import seen_tokens
from kafka_offsets.broker.wire.rights import Right, on_cluster, on_topics
from kafka_offsets.errors import ErrorCode
from kafka_offsets.security.acls import AclOperation, ResourceType

DESCRIBE_TOPIC = on_topics(AclOperation.DESCRIBE)
_DESCRIBE_CLUSTER = on_cluster(AclOperation.DESCRIBE)
_OF_OTHER_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def cluster_operations(sender: Sender) -> int:
    """Return the operations on the cluster that a sender may do; none without the right to describe it."""
    return sender.operations(ResourceType.CLUSTER) if sender.may(_DESCRIBE_CLUSTER) else 0


def _group_operations(sender: Sender, core: Context, request: Any, response: Any) -> Any:
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = sender.operations(ResourceType.GROUP, group.group_id)
    return response


def _consumer_groups(sender: Sender, core: Context, request: Any, response: Any) -> Any:
    """Refuse groups whose members have partitions of a topic that the sender may not describe."""
    response = _group_operations(sender, core, request, response)
    for number, group in enumerate(response.groups):
        topics = {
            each.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for each in assignment.topic_partitions
        }
        if not _may_all(sender, DESCRIBE_TOPIC, topics):
            response.groups[number] = response.DescribedGroup(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=_OF_OTHER_TOPICS,
                group_id=group.group_id,
            )
    return response


def _may_all(sender: Sender, right: Right, names: set[str]) -> bool:
    return all(sender.may(right, name) for name in sorted(names))


def _transactions(sender: Sender, core: Context, request: Any, response: Any) -> Any:
    """Leave out the topics that the sender may not describe."""
    for state in response.transaction_states:
        state.topics = [each for each in state.topics if sender.may(DESCRIBE_TOPIC, each.topic)]
    return response


def _cluster(sender: Sender, core: Context, request: Any, response: Any) -> Any:
    if request.include_cluster_authorized_operations and not response.error_code:
        response.cluster_authorized_operations = cluster_operations(sender)
    return response


CHANGES: dict[str, Callable[[Sender, Context, Any, Any], Any]] = {
    "DescribeGroups": _group_operations,
    "ConsumerGroupDescribe": _consumer_groups,
    "DescribeTransactions": _transactions,
    "DescribeCluster": _cluster,
    "DescribeDelegationToken": seen_tokens,
}
"""By API: (sender, core, request, response) -> the response that the sender gets."""
