"""Requests of tests with offset.storage=zookeeper, and their answers."""

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from tests.drivers.core import CoreClient, commit_request
from tests.drivers.zookeeper_core import ZooKeeperCore

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
DAY_MS = 86_400_000


def offset_fetch(
    client: CoreClient, group: str, partitions: list[int], version: int = 5
) -> list[tuple[int, int]]:
    """Return offset and error of each partition of topic `t`."""
    request = messages.OffsetFetchRequest(group, [messages.OffsetFetchRequest.Topic("t", partitions)])
    answer = client.call(request, version)
    if answer.error_code:
        return [(-1, answer.error_code) for _ in partitions]
    return [(p.committed_offset, p.error_code) for topic in answer.topics for p in topic.partitions]


def fetch_error(client: CoreClient, group: str) -> int:
    answer = client.call(messages.OffsetFetchRequest(group, None), 7)
    return int(answer.error_code)


def commit_if(client: CoreClient, group: str, expected: int, offset: int, partition: int = 0) -> int:
    """Commit on condition; return the error."""
    request = commit_request(client.core, group, {("t", partition): offset}, 8)
    conditions.put(request.topics[0].partitions[0], expected)
    answer = client.call(request, 8)
    return int(answer.topics[0].partitions[0].error_code)


def delete_group(client: CoreClient, group: str) -> int:
    answer = client.call(messages.DeleteGroupsRequest([group]), 2)
    return int(answer.results[0].error_code)


def delete_offset(client: CoreClient, group: str, *partitions: int) -> tuple[int, list[int]]:
    request = messages.OffsetDeleteRequest
    wanted = [request.Topic("t", [request.Partition(partition) for partition in partitions])]
    answer = client.call(request(group, wanted), 0)
    return answer.error_code, [p.error_code for topic in answer.topics for p in topic.partitions]


def listed(client: CoreClient) -> list[str]:
    answer = client.call(messages.ListGroupsRequest(), 4)
    return sorted(group.group_id for group in answer.groups)


def in_log(broker: ZooKeeperCore) -> int:
    """Return how many records the offsets topic has."""
    return sum(hosted.log.log_end_offset for hosted in broker.core.runtime.all_shards())
