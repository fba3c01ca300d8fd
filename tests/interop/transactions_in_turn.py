"""Transactions of ours, complete and under way, are taken over by Apache Kafka from the directory, and by us from it.

Kafka ends a transaction of its own. We serve that, commit one, abort one, and stop while others are open. Kafka starts
on the folders: it lists and describes the same, readers of committed records read the same, and the open ones it
commits or aborts as their producers want. We serve what it has left then. test_kafka_round_trip.py starts the brokers.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from tests.interop import kafka_peer
from tests.interop.coordinator_client import GROUP, TRANSACTION, Client
from tests.interop.waiting import until

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
TOPIC, PARTITIONS = "orders", 2
"""Of the partitions, the first two have records."""
TIME_OUT_MS = 600_000  # nothing times out while the brokers change
INVALID_PRODUCER_EPOCH, UNSTABLE_OFFSET_COMMIT, PRODUCER_FENCED = 47, 88, 90


class Producer:
    """A transactional producer, by hand, or an idempotent one without a name.

    client  may be replaced: a producer goes on with whichever broker there is
    modern  as clients that know transactions of version 2: partitions and groups are not added before (KIP-890)
    """

    def __init__(self, client: Client, name: str | None, *, modern: bool = True) -> None:
        self.client, self._name, self._modern = client, name, modern
        made = client.call(messages.InitProducerIdRequest(name, TIME_OUT_MS), 4)
        self.identity = made.producer_id, made.producer_epoch
        self._sequences: Counter[int] = Counter()

    def send(self, index: int, *values: str) -> None:
        """Produce a batch."""
        if self._name and not self._modern:
            made = messages.AddPartitionsToTxnRequest
            topics = [made.AddPartitionsToTxnTopic(TOPIC, [index])]
            self.client.call(made([], self._name, *self.identity, topics), 3)
        self.client.call(self._produce(index, values), self._produce_version)
        self._sequences[index] += len(values)

    def refused(self, index: int, value: str) -> int:
        """Produce what will be refused; return the error."""
        answer = self.client.ask(self._produce(index, (value,)), self._produce_version)
        error: int = answer.responses[0].partition_responses[0].error_code
        return error

    @property
    def _produce_version(self) -> int:
        return 12 if self._modern else 11

    def _produce(self, index: int, values: tuple[str, ...]) -> messages.ProduceRequest:
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch(
            [(None, value.encode(), (), now_ms) for value in values],
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=self._sequences[index],
            transactional=self._name is not None,
        )
        made = messages.ProduceRequest
        data = [made.TopicProduceData(TOPIC, partition_data=[made.PartitionProduceData(index, bytes(batch))])]
        return made(self._name, -1, 10_000, data)

    def commit_offset(self, group: str, offset: int) -> None:
        """Commit an offset for the first partition with the transaction."""
        assert self._name
        if not self._modern:
            self.client.call(messages.AddOffsetsToTxnRequest(self._name, *self.identity, group), 3)
        made = messages.TxnOffsetCommitRequest
        topics = [made.Topic(TOPIC, [made.Partition(0, offset, -1, self._name)])]
        self.client.call(made(self._name, group, *self.identity, topics=topics), 5 if self._modern else 3)

    def end(self, *, commits: bool) -> None:
        """End the transaction, and wait until its markers are written."""
        assert self._name
        ended = messages.EndTxnRequest(self._name, *self.identity, commits)
        answer = self.client.call(ended, 5 if self._modern else 3)
        if self._modern:
            self.identity = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        until(lambda: state_of(self.client, self._name).startswith("Complete"), "the transaction is complete")


def state_of(client: Client, name: str | None) -> str:
    """Return the state of a transactional id."""
    (described,) = client.call(messages.DescribeTransactionsRequest([name or ""]), 0).transaction_states
    state: str = described.transaction_state
    return state


def told(client: Client) -> dict[str, Any]:
    """Return all that administrators are told of transactions, and what groups are told to be stable."""
    listed = client.call(messages.ListTransactionsRequest([], [], -1), 1).transaction_states
    names = sorted(each.transactional_id for each in listed)
    described = client.call(messages.DescribeTransactionsRequest(names), 0).transaction_states
    for each in described:
        each.topics.sort(key=repr)
    asked = messages.DescribeProducersRequest
    topics = [asked.TopicRequest(TOPIC, [*range(PARTITIONS)])]
    (answered,) = client.call(asked(topics), 0).topics
    answered.partitions.sort(key=lambda each: each.partition_index)
    producers = [sorted(each.active_producers, key=repr) for each in answered.partitions]
    return {
        "listed": sorted(map(repr, listed)),
        "described": {each.transactional_id: repr(each) for each in described},
        "producers": [[repr(each) for each in active] for active in producers],
        "stable": {name: stable_offset(client, f"group-{name}") for name in names},
    }


def stable_offset(client: Client, group: str) -> tuple[int, int]:
    """Return error and offset of the first partition, as a reader of stable offsets is told them."""
    made = messages.OffsetFetchRequest
    request = made(group, [made.Topic(TOPIC, [0])], require_stable=True)
    (topic,) = client.ask(request, 7).topics
    return topic.partitions[0].error_code, topic.partitions[0].committed_offset


def read(client: Client) -> dict[int, list[tuple[int, str]]]:
    """Return offsets and values of the records that a reader of committed ones gets, by partition."""
    host, port = client.address
    consumer = Consumer(
        {
            "bootstrap.servers": f"{host}:{port}",
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: dict[int, list[tuple[int, str]]] = {}
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    values: dict[int, list[tuple[int, str]]] = {index: [] for index in range(PARTITIONS)}

    def at_the_ends() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is not None:
            found[message.partition()] = values[message.partition()]
        elif message is not None:
            values[message.partition()].append((message.offset(), message.value().decode()))
        return len(found) == PARTITIONS

    until(at_the_ends, "the reader comes to the last stable offsets")
    consumer.close()
    return found


def write_as_kafka(client: Client) -> None:
    """Have a transaction ended by a producer whose id is Kafka's."""
    client.find_coordinator("group", GROUP)
    client.find_coordinator("name", TRANSACTION)
    producer = Producer(client, "kafkas")
    producer.send(0, "kafkas")
    producer.commit_offset("group-kafkas", 11)
    producer.end(commits=True)


def write_as_ours(client: Client) -> tuple[Producer, Producer]:
    """Commit, abort, and leave two open; return the producers of these."""
    for name, modern in (("old", False), ("modern", True)):
        for commits in (True, False):
            ending = Producer(client, f"{name}-{commits}", modern=modern)
            ending.send(0, f"{name} {commits} 1", f"{name} {commits} 2")
            ending.send(1, f"{name} {commits} 3")
            ending.commit_offset(f"group-{name}-{commits}", 21)
            ending.end(commits=commits)
    patient = Producer(client, "patient", modern=False)
    patient.send(0, "patient 1")
    fenced = Producer(client, "fenced")
    fenced.send(1, "fenced")
    fenced.commit_offset("group-fenced", 31)
    Producer(client, None).send(1, "behind")
    return patient, fenced


def go_on(client: Client, patient: Producer, fenced: Producer) -> None:
    """Go on in one open transaction and commit it; fence the other, and go on under its name and under a new one."""
    patient.client = fenced.client = client
    patient.send(0, "patient 2")
    patient.end(commits=True)
    again = Producer(client, "fenced")
    assert again.identity[0] == fenced.identity[0] and again.identity[1] > fenced.identity[1]
    assert state_of(client, "fenced") in {"CompleteAbort", "Empty"}
    assert fenced.refused(1, "late") in {INVALID_PRODUCER_EPOCH, PRODUCER_FENCED}
    assert stable_offset(client, "group-fenced") == (0, -1)
    again.send(1, "again")
    again.commit_offset("group-fenced", 41)
    again.end(commits=True)
    new = Producer(client, "new")
    for index in range(PARTITIONS):
        new.send(index, "new at Kafka")
    new.end(commits=True)


def check_with_kafkas_tool(logs: Path) -> None:
    """Let DumpLogSegments read all segments, each topic's with the decoder of it."""
    kinds = (("dump-transactions", TRANSACTIONS_TOPIC), ("dump", OFFSETS_TOPIC), ("dump-data", TOPIC))
    text = {
        topic: "\n".join(
            kafka_peer.dump(verb, sorted(logs.glob(f"{topic}-*/0*[gx]")), may_have_gaps=verb == "dump")
        )
        for verb, topic in kinds
    }
    assert "\n| offset: " in text[OFFSETS_TOPIC]
    assert '"transactionalId":"fenced"' in text[TRANSACTIONS_TOPIC]
    assert all("endTxnMarker: ABORT" in text[topic] for topic in (OFFSETS_TOPIC, TOPIC))


class Transactions:
    """What one broker has told, and the next one has to tell."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}
        self._records: dict[int, list[tuple[int, str]]] = {}
        self._open: tuple[Producer, ...] = ()

    def begin(self, client: Client) -> None:
        """Kafka's first turn."""
        write_as_kafka(client)
        self._told = told(client)

    def go_on_with_us(self, client: Client) -> None:
        """Our first turn."""
        assert told(client) == self._told
        self._open = write_as_ours(client)
        self._told, self._records = told(client), read(client)
        committed = [value for _, value in self._records[0]]
        assert committed == ["kafkas", "old True 1", "old True 2", "modern True 1", "modern True 2"]
        after = [value for _, value in self._records[1]]
        assert after == ["old True 3", "modern True 3"], "nothing after the open one"
        stable = self._told["stable"]
        assert stable["fenced"] == (UNSTABLE_OFFSET_COMMIT, -1)
        assert stable["old-True"] == stable["modern-True"] == (0, 21)
        assert stable["old-False"] == stable["modern-False"] == (0, -1)

    def go_on_with_kafka(self, client: Client) -> None:
        """Kafka's second turn."""
        # ListTransactions passes over partitions that Kafka does not lead yet; DescribeTransactions is refused there.
        client.call(messages.DescribeTransactionsRequest(sorted(self._told["described"])), 0)
        assert told(client) == self._told
        assert read(client) == self._records
        before = [value for _, value in self._records[0]]
        patient, fenced = self._open
        go_on(client, patient, fenced)
        self._told, self._records = told(client), read(client)
        first, second = ([value for _, value in self._records[index]] for index in range(PARTITIONS))
        assert first == [*before, "patient 1", "patient 2", "new at Kafka"]
        assert second[2:] == ["behind", "again", "new at Kafka"]
        assert self._told["stable"]["fenced"] == (0, 41)

    def end_with_us(self, client: Client) -> None:
        """Our last turn."""
        assert told(client) == self._told
        assert read(client) == self._records
        new = Producer(client, "new here")
        new.send(0, "new here")
        new.end(commits=True)
        before = self._records[0]
        assert read(client)[0] == [*before, (before[-1][0] + 2, "new here")], "a marker between"
