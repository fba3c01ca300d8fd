"""A transactional producer and a reader that speak to a core in bytes."""

from typing import Any

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch, read_records
from tests.drivers.core import CoreClient

NOW_MS = 1_700_000_000_000
OLD, NEW = 3, 5
"""Versions of EndTxn of clients that keep their epoch, and of those that get one with each transaction."""


class Producer:
    """A producer of one transactional id. What it is told of its id and epoch goes into its next request."""

    def __init__(self, core: BrokerCore, name: str = "x") -> None:
        self.client = CoreClient(core)
        self.name = name
        self.id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000, **fields: Any) -> int:
        answer = self.client.call(messages.InitProducerIdRequest(self.name, timeout_ms, **fields), 5)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    def produce_request(
        self, topic: str, *values: bytes, partition: int = 0, sequence: int | None = None
    ) -> messages.ProduceRequest:
        request = messages.ProduceRequest
        if sequence is None:
            sequence = self.sequences.get((topic, partition), 0)
        batch = encode_batch(
            [(None, value, (), NOW_MS) for value in values],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = request.TopicProduceData(
            topic, bytes(16), [request.PartitionProduceData(partition, bytes(batch))]
        )
        return request(self.name, -1, 1000, [data])

    def produce(self, topic: str, *values: bytes, partition: int = 0, version: int = 12) -> int:
        answer = self.client.call(self.produce_request(topic, *values, partition=partition), version)
        error = int(answer.responses[0].partition_responses[0].error_code)
        if not error:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return error

    def commit_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> int:
        request = messages.TxnOffsetCommitRequest
        named = request.Topic(topic, [request.Partition(partition, offset, committed_metadata="")])
        answer = self.client.call(request(self.name, group, self.id, self.epoch, -1, "", None, [named]), 5)
        return int(answer.topics[0].partitions[0].error_code)

    def end_request(self, committed: bool) -> messages.EndTxnRequest:
        return messages.EndTxnRequest(self.name, self.id, self.epoch, committed)

    def end(self, committed: bool, version: int = NEW) -> int:
        answer = self.client.call(self.end_request(committed), version)
        if not answer.error_code and version >= NEW:
            if answer.producer_epoch != self.epoch:
                self.sequences.clear()
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def state(self) -> str:
        answer = self.client.call(messages.DescribeTransactionsRequest([self.name]), 0)
        return str(answer.transaction_states[0].transaction_state)


def fetch(
    core: BrokerCore,
    topic: str,
    offset: int = 0,
    isolation: int = 1,
    partition: int = 0,
    max_bytes: int = 1 << 20,
) -> Any:
    """Return what a reader is answered of one partition."""
    wanted = fetch_request(topic, offset, isolation, partition, max_bytes)
    return CoreClient(core).call(wanted, 11).responses[0].partitions[0]


def fetch_request(
    topic: str, offset: int = 0, isolation: int = 1, partition: int = 0, max_bytes: int = 1 << 20
) -> messages.FetchRequest:
    """Return the request of a reader of one partition."""
    request = messages.FetchRequest
    asked = request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return request(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[request.FetchTopic(topic=topic, partitions=[asked])],
    )


def read(core: BrokerCore, topic: str, partition: int = 0, max_bytes: int = 1 << 20) -> list[bytes]:
    """Return the values that a reader of committed records is given, as clients find them.

    max_bytes  of each fetch; 1 for one batch
    """
    values: list[bytes] = []
    offset = 0
    while True:
        found = fetch(core, topic, offset, partition=partition, max_bytes=max_bytes)
        data = bytes(found.records)
        if not data:
            return values
        aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions)
        hidden: set[int] = set()
        for header, records in batches(data):
            while aborted and aborted[0][0] <= header.last_offset:
                hidden.add(aborted.pop(0)[1])
            if header.is_control:
                if records and records[0].key == b"\0\0\0\0":
                    hidden.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in hidden):
                values += [record.value or b"" for record in records if record.offset >= offset]
            following = header.last_offset + 1
        offset = following


def batches(data: bytes) -> Any:
    """Give header and records of each batch."""
    from kafka_offsets.protocol.records import batch_headers

    for position, header in batch_headers(data):
        yield header, read_records(data, position, header)
