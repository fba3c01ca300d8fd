"""`serve --brokers 3` with `offsets.forward`: any process takes commits, fetches and deletions, and passes them on."""

from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.client.connection import Connection, parse_addresses
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.interop.broker_process import OVERRIDE
from tests.interop.cluster_process import ClusterProcess
from tests.interop.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(OVERRIDE is not None, reason="another command has no --brokers"),
]


@pytest.mark.parametrize("forwards", [True, False])
def test_any_process_accepts_requests_for_offsets_where_configured(tmp_path: Path, forwards: bool) -> None:
    settings = {"offsets.topic.num.partitions": "3", "offsets.forward": str(forwards).lower()}
    cluster = ClusterProcess(tmp_path / "data", settings=settings)
    addresses = parse_addresses(cluster.start())
    try:
        create_topic(addresses)
        coordinator = until(lambda: coordinator_of("g", addresses[0]), "the group has a coordinator")
        answers = {}
        for offset, address in enumerate(addresses):
            committed = error_of(call(address, commit(offset), 8))
            fetched = call(address, fetch(), 5)
            answers[address] = committed, fetched.error_code or offset_of(fetched)
        if forwards:
            assert answers == {address: (0, offset) for offset, address in enumerate(addresses)}
            assert [call(address, delete(), 0).error_code for address in addresses] == [0, 0, 0]
            assert offset_of(call(coordinator, fetch(), 5)) == -1
        else:
            refused = ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR
            assert [answers[address] for address in addresses if address != coordinator] == [refused, refused]
            assert answers[coordinator] == (0, addresses.index(coordinator))
    finally:
        cluster.stop()


def call(address: tuple[str, int], request: messages.MessageValue, version: int) -> Any:
    with Connection(*address) as connection:
        return connection.call(request, version)


def create_topic(addresses: list[tuple[str, int]]) -> None:
    request = messages.CreateTopicsRequest
    answer = call(addresses[0], request([request.CreatableTopic("t", 1, 1)], 5000), 4)
    assert answer.topics[0].error_code == 0
    metadata = messages.MetadataRequest
    wanted = metadata([metadata.Topic(name="t")], False)
    for address in addresses:
        until(lambda at=address: call(at, wanted, 4).topics[0].error_code == 0, "each process has the topic")


def coordinator_of(group: str, address: tuple[str, int]) -> tuple[str, int] | None:
    found = call(address, messages.FindCoordinatorRequest(group, 0), 2)
    return None if found.error_code else (found.host, found.port)


def commit(offset: int) -> messages.OffsetCommitRequest:
    request = messages.OffsetCommitRequest
    return request("g", topics=[request.Topic("t", partitions=[request.Partition(0, offset)])])


def error_of(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


def fetch() -> messages.OffsetFetchRequest:
    request = messages.OffsetFetchRequest
    return request("g", [request.Topic("t", [0])])


def offset_of(answer: Any) -> int:
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def delete() -> messages.OffsetDeleteRequest:
    request = messages.OffsetDeleteRequest
    return request("g", [request.Topic("t", [request.Partition(0)])])
