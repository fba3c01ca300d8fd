"""RecordFetcher of the consumer: which records it returns when a batch is damaged."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.exceptions import RecordsDamaged
from kafka_offsets.client.consumer.fetcher import RecordFetcher
from kafka_offsets.client.consumer.metadata import Metadata
from kafka_offsets.client.consumer.network import ConsumerNetwork
from kafka_offsets.client.consumer.positions import Positions
from kafka_offsets.client.consumer.settings import parse_settings
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch


class OneLeader:
    """A network and metadata in which one leader answers a Fetch with given bytes for each partition."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def answer(self, *logs: bytes) -> None:
        made = messages.FetchResponse
        partitions = [made.PartitionData(number, records=log) for number, log in enumerate(logs)]
        self.waiting.pop()(made(responses=[made.FetchableTopicResponse("t", partitions=partitions)]))

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
        self.waiting.append(done)
        return True


def fetcher_of(*logs: bytes) -> tuple[RecordFetcher, Positions, OneLeader]:
    """Return a fetcher that has fetched all logs, its positions, and the leader."""
    leader = OneLeader()
    settings = parse_settings({"bootstrap.servers": "127.0.0.1:1"})
    network, metadata = cast("ConsumerNetwork", leader), cast("Metadata", leader)
    positions = Positions(network, metadata, None, settings)
    positions.add({("t", partition): 0 for partition in range(len(logs))})
    fetcher = RecordFetcher(network, metadata, positions, settings)
    fetcher.step(0)
    leader.answer(*logs)
    return fetcher, positions, leader


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
    fetcher, positions, _ = fetcher_of(*logs)
    assert [(record.partition, record.offset) for record in fetcher.take(100)] == [(0, 0), (0, 1), (0, 2)]
    for _ in range(2):
        with pytest.raises(RecordsDamaged):
            fetcher.take(100)
    assert positions.consumed() == {("t", 0): 3, ("t", 1): 0} if len(logs) > 1 else {("t", 0): 3}


def test_the_error_of_a_damaged_batch_says_how_to_continue() -> None:
    fetcher, positions, leader = fetcher_of(batch(0, 3, is_damaged=True) + batch(3, 2))
    with pytest.raises(
        RecordsDamaged,
        match=r"t-0: the record batch at offset 0 is damaged \(.* CRC .*\); to continue after it, "
        r"call position\(\[\('t', 0, 3\)\]\)$",
    ) as raised:
        fetcher.take(100)
    assert (raised.value.place, raised.value.offset, raised.value.next_offset) == (("t", 0), 0, 3)
    positions.table["t", 0].move(raised.value.next_offset)
    fetcher.step(0)
    leader.answer(batch(3, 2))
    assert [record.offset for record in fetcher.take(100)] == [3, 4]


def test_a_batch_whose_header_is_damaged_ends_the_records_before_it_and_is_then_the_error() -> None:
    """Its length is not known, nor where the next batch begins. It was an error of the connection."""
    damaged = bytearray(batch(3, 2))
    damaged[16] = 9  # the magic byte
    fetcher, positions, leader = fetcher_of(batch(0, 3) + bytes(damaged), batch(0, 1))
    assert [(record.partition, record.offset) for record in fetcher.take(100)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    positions.check()
    fetcher.step(0)
    leader.answer(bytes(damaged), batch(1, 1))
    assert [(record.partition, record.offset) for record in fetcher.take(100)] == [(1, 1)]
    with pytest.raises(RecordsDamaged, match=r"at offset 3 .*\[\('t', 0, a later offset\)\]\)$") as raised:
        positions.check()
    assert raised.value.next_offset is None
