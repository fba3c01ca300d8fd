"""Steps of the scripts of replicas.py and replica_groups.py: records, members of consumer groups, producers."""

from typing import Any

from kafka_offsets.protocol.records import encode_batch
from tests.differential.play import Client
from tests.differential.printed import FIRST_MS

ENTERING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["orders"],
    "topic_partitions": [],
}


def batch(*values: str, first_ms: int = FIRST_MS) -> bytes:
    """A batch of records a second apart, their values as keys too."""
    return bytes(
        encode_batch([(v.encode(), v.encode(), (), first_ms + 1000 * n) for n, v in enumerate(values)])
    )


def produce(a: Client, topic: str, data: Any, version: int = 9, partition: int = 0, acks: int = -1) -> Any:
    """Produce one batch."""
    partitions = [{"index": partition, "records": data}]
    topics = [{"name": topic, "topic_id": topic, "partition_data": partitions}]
    return a.ask("Produce", version, acks=acks, timeout_ms=5000, topic_data=topics)


def fetch(a: Client, topic: str, *offsets: tuple[int, int], version: int = 11, **fields: Any) -> Any:
    """Fetch partitions from offsets on."""
    partitions = [
        {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        for partition, offset in offsets
    ]
    own = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [{"topic": topic, "topic_id": topic, "partitions": partitions}],
    }
    return a.ask("Fetch", version, **own | fields)


def offsets_at(a: Client, topic: str, *timestamps: tuple[int, int]) -> Any:
    """ListOffsets of (partition, timestamp)."""
    partitions = [
        {"partition_index": partition, "timestamp": timestamp} for partition, timestamp in timestamps
    ]
    topics = [{"name": topic, "partitions": partitions}]
    return a.ask("ListOffsets", 7, replica_id=-1, isolation_level=0, topics=topics, timeout_ms=5000)


def owned(partitions: dict[str, list[int]]) -> list[dict[str, Any]]:
    """What a member says that it owns."""
    return [
        {"topic_id": topic, "partitions": sorted(indexes)} for topic, indexes in sorted(partitions.items())
    ]


def beat(a: Client, **fields: Any) -> Any:
    """A heartbeat that says nothing new."""
    own = {
        "group_id": a.group,
        "member_id": a.member_id,
        "member_epoch": a.generation,
        "instance_id": a.instance,
    }
    return a.ask("ConsumerGroupHeartbeat", 1, **own | fields)


def enter(a: Client, **fields: Any) -> Any:
    """The first heartbeat of a member."""
    if not a.member_id:
        a.member_id = f"member-{a.label}"
    return beat(a, **ENTERING | fields)


def own(a: Client, answer: Any) -> Any:
    """A heartbeat that says that the member owns what it was assigned last."""
    return beat(a, topic_partitions=owned(held(a, answer)))


def held(a: Client, answer: Any) -> dict[str, list[int]]:
    """The partitions of an answer by topic."""
    assignment = getattr(answer, "assignment", None)
    topics = assignment.topic_partitions if assignment else []
    names = a.play.names
    found = {names.topic_text(t.topic_id).removeprefix("id of "): list(t.partitions) for t in topics}
    return dict(sorted(found.items()))


def describe(a: Client, *groups: str) -> Any:
    """ConsumerGroupDescribe."""
    return a.ask("ConsumerGroupDescribe", 1, group_ids=list(groups or [a.group]))


class Producer:
    """A transactional producer: its id, its epoch and its sequence numbers as it last heard of them."""

    def __init__(self, client: Client, transactional_id: str) -> None:
        self.play, self.client, self.name = client.play, client, transactional_id
        self.id, self.epoch = -1, -1
        self.sequence = 0

    def moved(self, client: Client) -> "Producer":
        """Return this producer on another connection."""
        made = Producer(client, self.name)
        made.id, made.epoch, made.sequence = self.id, self.epoch, self.sequence
        return made

    @property
    def own(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def init(self) -> Any:
        old = {"producer_id": -1, "producer_epoch": -1}
        own = {"transactional_id": self.name, "transaction_timeout_ms": 60_000}
        answer = self.client.ask("InitProducerId", 5, **own | old)
        if answer is not None and not answer.error_code:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer

    def add(self, topic: str, version: int = 3) -> Any:
        topics = [{"name": topic, "partitions": [0]}]
        if version < 4:
            own = {f"v3_and_below_{field}": value for field, value in self.own.items()}
            return self.client.ask("AddPartitionsToTxn", version, v3_and_below_topics=topics, **own)
        return self.client.ask("AddPartitionsToTxn", version, transactions=[self.own | {"topics": topics}])

    def produce(self, topic: str, value: str) -> Any:
        batch = {"producer_id": self.id, "producer_epoch": self.epoch, "transactional": True}
        records = [(None, value.encode(), (), FIRST_MS)]
        data = bytes(encode_batch(records, base_sequence=self.sequence, **batch))
        topics = [{"name": topic, "topic_id": topic, "partition_data": [{"index": 0, "records": data}]}]
        own = {"transactional_id": self.name, "acks": -1, "timeout_ms": 5000}
        answer = self.client.ask("Produce", 12, **own, topic_data=topics)
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            self.sequence += 1
        return answer

    def commit(self, version: int) -> Any:
        return self.client.ask("EndTxn", version, committed=True, **self.own)

    def describe(self) -> Any:
        return self.client.ask("DescribeTransactions", 0, transactional_ids=[self.name])


def add_offsets(a: Producer) -> Any:
    """AddOffsetsToTxn for the situation's group."""
    return a.client.ask("AddOffsetsToTxn", 3, **a.own, group_id=a.play.group)


def commit_in_transaction(a: Producer, *offsets: tuple[str, int, int], version: int = 3) -> Any:
    """TxnOffsetCommit for the situation's group."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, offset in offsets:
        entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        topics.setdefault(topic, []).append(entry)
    named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    return a.client.ask("TxnOffsetCommit", version, **a.own, group_id=a.play.group, topics=named)
