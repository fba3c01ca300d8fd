"""A transactional producer for situations: it keeps its id, its epoch and its sequence numbers."""

from typing import Any

from kafka_offsets.protocol.records import encode_batch
from tests.differential.play import Client, Play
from tests.differential.situations.records import FIRST_MS, fetch
from tests.differential.table import Script, situation

SETTING = "transactions"
OLD, NEW = 3, 5
"""Versions of EndTxn: of clients that keep their epoch, and of those whose epoch grows with each transaction."""

UNCOMMITTED, COMMITTED = 0, 1


def own_topic(w: Play, partitions: int = 1, name: str = "") -> str:
    """A topic whose log does not go on in a new segment at the first marker, of which the time is now."""
    return w.topic(partitions, name, segment_ms=str(2**63 - 1))


class Producer:
    """A transactional producer: its id and epoch as it last heard of them."""

    def __init__(self, w: Play, label: str = "a", name: str = "") -> None:
        self.play = w
        self.client: Client = w.client(label)
        self.name = w.transactional(name)
        self.id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, version: int = 5, **fields: Any) -> Any:
        own = {"transactional_id": self.name, "transaction_timeout_ms": 60_000}
        old = {"producer_id": -1, "producer_epoch": -1}
        answer = self.client.ask("InitProducerId", version, **own | old | fields)
        if answer is not None and not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    @property
    def own(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, *partitions: tuple[Any, ...], version: int = 3, **fields: Any) -> Any:
        topics = [{"name": name, "partitions": list(indexes)} for name, *indexes in partitions]
        if version < 4:
            own = {f"v3_and_below_{field}": value for field, value in (self.own | fields).items()}
            return self.client.ask("AddPartitionsToTxn", version, v3_and_below_topics=topics, **own)
        return self.add_several(self.own | {"topics": topics} | fields, version=version)

    def add_several(self, *transactions: dict[str, Any], version: int = 5) -> Any:
        return self.client.ask("AddPartitionsToTxn", version, transactions=list(transactions))

    def verify(self, *partitions: tuple[Any, ...], version: int = 5, **fields: Any) -> Any:
        return self.add(*partitions, version=version, verify_only=True, **fields)

    def produce(self, topic: str, *values: str, version: int = 12, partition: int = 0, **fields: Any) -> Any:
        place = topic, partition
        sequence = fields.pop("sequence", self.sequences.get(place, 0))
        batch = {"producer_id": self.id, "producer_epoch": self.epoch, "transactional": True} | fields
        transactional_id = batch.pop("transactional_id", self.name)
        data = bytes(
            encode_batch([(None, v.encode(), (), FIRST_MS) for v in values], base_sequence=sequence, **batch)
        )
        self.play.names.learn_producer(batch["producer_id"])
        parts = [{"index": partition, "records": data}]
        topics = [{"name": topic, "topic_id": topic, "partition_data": parts}]
        answer = self.client.ask(
            "Produce",
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=topics,
        )
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            self.sequences[place] = sequence + len(values)
        return answer

    def end(self, committed: bool, version: int = NEW, **fields: Any) -> Any:
        answer = self.client.ask("EndTxn", version, committed=committed, **self.own | fields)
        self.play.settle(self.name)
        if answer is not None and not answer.error_code and version >= NEW:
            if answer.producer_epoch != self.epoch:
                self.sequences.clear()
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def commit(self, version: int = NEW, **fields: Any) -> Any:
        return self.end(True, version, **fields)

    def abort(self, version: int = NEW, **fields: Any) -> Any:
        return self.end(False, version, **fields)

    def describe(self, *names: str) -> Any:
        return self.client.ask("DescribeTransactions", 0, transactional_ids=list(names or [self.name]))

    def list(self, version: int = 2, **fields: Any) -> Any:
        own = {"state_filters": [], "producer_id_filters": []}
        return self.client.ask("ListTransactions", version, **own | fields)

    def producers(self, topic: str, *partitions: int) -> Any:
        topics = [{"name": topic, "partition_indexes": list(partitions or (0,))}]
        return self.client.ask("DescribeProducers", 0, topics=topics)

    def read(self, topic: str, offset: int = 0, version: int = 11, isolation: int = COMMITTED) -> Any:
        return fetch(self.client, topic, (0, offset), version=version, isolation_level=isolation)

    def ends(self, topic: str, version: int = 7) -> None:
        for isolation in (UNCOMMITTED, COMMITTED):
            parts = [{"partition_index": 0, "timestamp": -1}]
            self.client.ask(
                "ListOffsets",
                version,
                replica_id=-1,
                isolation_level=isolation,
                topics=[{"name": topic, "partitions": parts}],
                timeout_ms=5000,
            )


def transactional(sentence: str, versions: Any = None) -> Any:
    """Enter a situation of the setting with transactions."""

    def enter(script: Script) -> Script:
        return situation(sentence, versions, SETTING)(script)

    return enter
