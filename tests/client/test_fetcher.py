"""RecordFetcher of the consumer: which records it returns when a batch is damaged."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.fetcher import RecordFetcher
from kafka_offsets.client.consumer.metadata import Metadata
from kafka_offsets.client.consumer.network import Network
from kafka_offsets.client.consumer.positions import Positions
from kafka_offsets.client.consumer.settings import parse_settings
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch


class OneLeader:
    """A network and metadata in which one leader answers a Fetch at once, with given bytes for each partition."""

    def __init__(self, logs: list[bytes]) -> None:
        self.logs = logs

    def leader(self, _place: object) -> Address:
        return ("127.0.0.1", 1)

    def leader_epoch(self, _place: object) -> int:
        return 0

    def send(
        self,
        _leader: Address,
        _purpose: object,
        _request: object,
        _version: int,
        _now_ms: int,
        done: Callable[[Any], None],
        *_: object,
    ) -> bool:
        made = messages.FetchResponse
        partitions = [made.PartitionData(number, records=log) for number, log in enumerate(self.logs)]
        done(made(responses=[made.FetchableTopicResponse("t", partitions=partitions)]))
        return True


def fetcher_of(*logs: bytes) -> tuple[RecordFetcher, Positions]:
    """Return a fetcher that has fetched all logs, and its positions."""
    leader = OneLeader(list(logs))
    settings = parse_settings({"bootstrap.servers": "127.0.0.1:1"})
    network, metadata = cast("Network", leader), cast("Metadata", leader)
    positions = Positions(network, metadata, None, settings)
    positions.add({("t", partition): 0 for partition in range(len(logs))})
    fetcher = RecordFetcher(network, metadata, positions, settings)
    fetcher.step(0)
    return fetcher, positions


def batch(first: int, count: int, *, is_damaged: bool = False) -> bytes:
    data = encode_batch([(None, b"x", (), 0)] * count, base_offset=first)
    if is_damaged:
        data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "logs",
    [(batch(0, 3), batch(0, 3, is_damaged=True)), (batch(0, 3) + batch(3, 3, is_damaged=True),)],
    ids=["of another partition", "of the same partition"],
)
def test_records_before_a_damaged_batch_are_returned_before_its_error(logs: tuple[bytes, ...]) -> None:
    """They were dropped, and the position had passed them: an automatic commit lost them for the group."""
    fetcher, positions = fetcher_of(*logs)
    assert [(record.partition, record.offset) for record in fetcher.take(100)] == [(0, 0), (0, 1), (0, 2)]
    for _ in range(2):
        with pytest.raises(ProtocolError):
            fetcher.take(100)
    assert positions.consumed() == {("t", 0): 3, ("t", 1): 0} if len(logs) > 1 else {("t", 0): 3}
