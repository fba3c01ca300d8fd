"""One directory of offsets, used in turn by Apache Kafka, by us, by Kafka and by us: neither loses or invents any.

Kafka commits for groups of every protocol, in transactions and outside, deletes some, and fills several segments. We
serve what it has committed, commit on, and compact. Kafka starts on that, serves the same, commits on, and its own
cleaner goes over what ours has left. Its tool finds nothing to complain of on the way. Transactions with records and
offsets, complete and open, go the same way, see transactions_in_turn.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.client.connection import parse_address
from kafka_offsets.protocol import messages
from tests.interop.broker_process import OVERRIDE
from tests.interop.coordinator_client import GROUP, TRANSACTION, Client, Committed, client_of
from tests.interop.kafka_peer import KafkaPeer
from tests.interop.transactions_in_turn import Transactions, check_with_kafkas_tool
from tests.interop.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.apache_kafka,
    pytest.mark.skipif(OVERRIDE is not None, reason="it is our own broker that takes its turn"),
]

OFFSETS_TOPIC = "__consumer_offsets"
TOPIC, PARTITIONS = "orders", 10
FILLING, FILLER = 100, "." * 1200
"""Commits of all partitions with so long a metadata fill a segment of a mebibyte, the least that Kafka takes."""
SEGMENTS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": str(1 << 20),
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
}
AT_REST = SEGMENTS | {"log.cleaner.enable": "false"}
CLEANING = SEGMENTS | {"log.cleaner.min.cleanable.ratio": "0.01", "log.cleaner.backoff.ms": "200"}
OURS = {"offsets.topic.segment.bytes": 1 << 20, "log.cleaner.enable": False}
OTHERS = {"share", "streams"}
"""Groups of these names have no offsets of the usual kind."""


def commit(client: Client, group: str, offset: int) -> None:
    """Commit the same offset for the first partitions of the topic, its digits as metadata."""
    commit_as_nobody(client, group, offset, f"№ {offset}", 3)


def commit_often(client: Client, group: str, first: int) -> None:
    """Commit rising offsets, more than a segment takes."""
    for offset in range(first, first + FILLING):
        commit_as_nobody(client, group, offset, FILLER, PARTITIONS)


def commit_as_nobody(client: Client, group: str, offset: int, metadata: str, partitions: int) -> None:
    made = messages.OffsetCommitRequest
    asked = [made.Partition(index, offset, committed_metadata=metadata) for index in range(partitions)]
    client.call(made(group, topics=[made.Topic(TOPIC, partitions=asked)]), 8)


def be_member(client: Client, request: messages.MessageValue, version: int) -> Any:
    """Join a group of one of the newer protocols; return the answer with the member's epoch."""
    joined = client.call(request, version)
    assert joined.member_epoch > 0, joined
    return joined


def commit_as_consumer(client: Client, group: str, offset: int) -> None:
    """Commit as a member of a group of KIP-848, and leave."""
    made = messages.ConsumerGroupHeartbeatRequest
    member = "AAAAAAAAAAAAAAAAAAAAAA"
    joined = be_member(
        client,
        made(
            group, member, 0, rebalance_timeout_ms=30_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
        ),
        1,
    )
    made_commit = messages.OffsetCommitRequest
    partition = made_commit.Partition(0, offset, committed_metadata="of a member")
    topics = [made_commit.Topic(TOPIC, partitions=[partition])]
    client.call(made_commit(group, joined.member_epoch, member, topics=topics), 9)
    client.call(made(group, member, -1), 1)


def join_others(client: Client) -> None:
    """Have a share group and a streams group with a member each."""
    member = "AAAAAAAAAAAAAAAAAAAAAQ"
    be_member(
        client, messages.ShareGroupHeartbeatRequest("share", member, 0, subscribed_topic_names=[TOPIC]), 1
    )
    made = messages.StreamsGroupHeartbeatRequest
    topology = made.Topology(1, [made.Subtopology("0", source_topics=[TOPIC])])
    be_member(
        client,
        made(
            "streams",
            "AAAAAAAAAAAAAAAAAAAAAg",
            0,
            rebalance_timeout_ms=30_000,
            topology=topology,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="process",
            client_tags=[],
        ),
        0,
    )


def commit_in_transaction(client: Client, group: str, offset: int, *, commits: bool) -> None:
    """Commit an offset in a transaction that is committed or aborted."""
    name = f"transaction-{group}"
    client.find_coordinator(name, TRANSACTION)
    producer = client.call(messages.InitProducerIdRequest(name, 60_000), 4)
    identity = producer.producer_id, producer.producer_epoch
    client.call(messages.AddOffsetsToTxnRequest(name, *identity, group), 3)
    made = messages.TxnOffsetCommitRequest
    topics = [made.Topic(TOPIC, [made.Partition(0, offset, -1, "in a transaction")])]
    client.call(made(name, group, *identity, topics=topics), 3)
    client.call(messages.EndTxnRequest(name, *identity, commits), 3)


def create_topic(client: Client) -> None:
    made = messages.CreateTopicsRequest
    client.call(made([made.CreatableTopic(TOPIC, PARTITIONS, 1)], 10_000), 7)


def write_as_kafka(client: Client) -> None:
    """Commit with every protocol, delete, and fill segments."""
    create_topic(client)
    client.find_coordinator("simple", GROUP)
    commit(client, "simple", 7)
    commit(client, "gone", 8)
    client.call(messages.DeleteGroupsRequest(["gone"]), 2)
    made = messages.OffsetDeleteRequest
    client.call(made("simple", [made.Topic(TOPIC, [made.Partition(1)])]), 0)
    commit_as_consumer(client, "consumer", 21)
    join_others(client)
    commit_in_transaction(client, "committed", 31, commits=True)
    commit_in_transaction(client, "aborted", 32, commits=False)
    commit_often(client, "often", 1)


def segments(logs: Path) -> list[Path]:
    return sorted(logs.glob(f"{OFFSETS_TOPIC}-*/0*.log"))


def size(logs: Path) -> int:
    """Bytes in segments, those that may not be on the disk yet included."""
    return sum(path.stat().st_size for path in logs.glob(f"{OFFSETS_TOPIC}-*/0*.log*"))


def take_our_turn(
    logs: Path, said: Committed, number: int, go_on: Callable[[Client], None]
) -> tuple[Committed, dict[str, tuple[str, str]]]:
    """Serve what was said, commit on, compact, `go_on`; return what these have committed then, and all groups."""
    with (
        Broker(OURS, data_directory=logs) as broker,
        client_of(parse_address(broker.bootstrap_servers)) as client,
    ):
        assert client.committed(set(said)) == said
        for group in (*said, f"ours-{number}"):
            commit(client, group, 1000 * number)
        commit_often(client, "often", 1000 * number)
        committed = client.committed({*said, f"ours-{number}"})
        before = size(logs)
        done = broker.compact(OFFSETS_TOPIC).values()
        assert not any(log.error for log in done), done
        assert sum(log.records_gone for log in done) > FILLING * PARTITIONS / 2
        assert size(logs) == before - sum(log.bytes_gone for log in done)
        assert client.committed(set(committed)) == committed
        go_on(client)
        return committed, client.groups()


def take_kafkas_turn(
    kafka: KafkaPeer,
    said: Committed,
    listed: dict[str, tuple[str, str]],
    go_on: Callable[[Client], None],
) -> Committed:
    """Start Kafka on what we have left; it serves what was said, goes on, and cleans; return what is committed then."""
    with client_of(kafka.start(CLEANING)) as client:
        assert client.committed(set(said)) == said
        assert client.groups() == listed
        go_on(client)
        for group in said:
            commit(client, group, 2000)
        commit_often(client, "often", 2000)
        until(lambda: f"cleaned log {OFFSETS_TOPIC}-" in kafka.log_text(), "Kafka's cleaner has been at it")
        committed = client.committed(set(said))
    kafka.stop()
    return committed


def test_a_directory_goes_from_kafka_to_us_and_back_and_nothing_is_lost(kafka: KafkaPeer) -> None:
    transactions = Transactions()
    with client_of(kafka.start(AT_REST)) as client:
        write_as_kafka(client)
        listed = client.groups()
        said = client.committed(set(listed) - OTHERS)
        transactions.begin(client)
    kafka.stop()
    assert said["aborted"] == {} and said["committed"] == {(TOPIC, 0): (31, "in a transaction")}
    assert {kind for _, kind in listed.values()} == {"classic", "consumer", "share", "streams"}
    assert len(segments(kafka.logs)) > 2

    said, ours = take_our_turn(kafka.logs, said, 1, transactions.go_on_with_us)
    assert ours["ours-1"] == ("", "classic") and {*listed} - {*ours} == OTHERS
    check_with_kafkas_tool(kafka.logs)
    said = take_kafkas_turn(kafka, said, listed | ours, transactions.go_on_with_kafka)
    take_our_turn(kafka.logs, said, 3, transactions.end_with_us)
    check_with_kafkas_tool(kafka.logs)
