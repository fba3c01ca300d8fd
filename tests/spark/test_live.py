"""The offsets log of a running broker, by the protocol. No Spark here."""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_offsets import Broker
from kafka_offsets.client.retries import Retries
from kafka_offsets.client.settings import secured_settings
from kafka_offsets.errors import ErrorCode, ProtocolError, RefusedError
from kafka_offsets.protocol.records import MAGIC_POSITION, encode_batch
from kafka_offsets.spark.reader import live, options
from kafka_offsets.spark.reader.live import Range
from tests.drivers.secured import PASSWORD, USER, Secured
from tests.spark import reference
from tests.spark.logs import commit, marker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 2}) as broker:
        broker.create_topic("orders")
        yield broker


def topic_of(broker: Broker) -> live.OffsetsTopic:
    return live.OffsetsTopic(secured_settings(broker.bootstrap_servers))


def planned(start: Mapping[int, int], stop: Mapping[int, int], split_records: int) -> list[Range]:
    return [part for ranges in live.plan(start, stop, split_records) for part in ranges]


def test_partitions_with_few_records_share_a_reader() -> None:
    assert live.plan({}, dict.fromkeys(range(50), 20), 1_000) == [[Range(n, 0, 20) for n in range(50)]]
    assert live.plan({0: 5}, {0: 25, 1: 4, 2: 12, 3: 0}, 10) == [
        [Range(0, 5, 15)],
        [Range(0, 15, 25)],
        [Range(1, 0, 4), Range(2, 0, 10)],
        [Range(2, 10, 12)],
    ]


def read(broker: Broker, part: Range, **given: str) -> list[dict[str, object]]:
    asked = options.parse({"bootstrap.servers": broker.bootstrap_servers, **given})
    return [
        row for batch in live.read(asked.connections, part, asked.query) for row in reference.listed(batch)
    ]


def test_the_log_of_a_broker_is_read_by_the_protocol(broker: Broker) -> None:
    for number in range(5):
        broker.commit("billing", {("orders", 0): number})
    with topic_of(broker) as topic:
        begin, end = topic.offsets(end=False), topic.offsets(end=True, committed=True)
    columns = "group,topic,partition,committed_offset"
    rows = [row for part in planned(begin, end, 1_000) for row in read(broker, part, columns=columns)]
    assert [row["committed_offset"] for row in rows] == [0, 1, 2, 3, 4]
    assert {(row["group"], row["topic"], row["partition"]) for row in rows} == {("billing", "orders", 0)}


BATCHES = [bytes(encode_batch([commit("g", "t", 0, n)], base_offset=n)) for n in range(3)]
LAST_DELTA_AT = 23


def with_bytes(batch: bytes, at: int, changed: bytes) -> bytes:
    return batch[:at] + changed + batch[at + len(changed) :]


def serve(monkeypatch: pytest.MonkeyPatch, batches: list[bytes]) -> None:
    """Answer each Fetch with the batches from the one with its number on."""

    def answer(_: object, partition: int, offset: int) -> SimpleNamespace:
        return SimpleNamespace(records=b"".join(batches[offset:]), high_watermark=len(batches))

    monkeypatch.setattr(live.OffsetsTopic, "_fetch", answer)


@pytest.mark.parametrize(
    ("number", "changed", "expected", "words"),
    [
        (1, with_bytes(BATCHES[1], MAGIC_POSITION, b"\1"), [0, None, 2], ""),
        (1, with_bytes(BATCHES[1], MAGIC_POSITION, b"\11"), [0, None, 2], ""),
        (1, bytes(len(BATCHES[1])), [0, None, 2], ""),
        (1, with_bytes(BATCHES[1], LAST_DELTA_AT, b"\xff" * 4), [0, None, 2], ""),
        (
            2,
            with_bytes(BATCHES[2], MAGIC_POSITION, b"\1"),
            [0, 1],
            "no valid batch with offset 2 in a response of",
        ),
        (2, with_bytes(BATCHES[2], LAST_DELTA_AT, b"\xff" * 4), [0, 1], "no valid batch with offset 2"),
        (
            2,
            with_bytes(BATCHES[2], 0, (-5).to_bytes(8, "big", signed=True)),
            [0, 1],
            "no valid batch with offset",
        ),
        (
            2,
            BATCHES[2][:70],
            [0, 1],
            "no valid batch with offset 2 in a response of 70 bytes: 0000000000000002",
        ),
        (0, b"x", [], "no valid batch with offset 0"),
    ],
)
def test_damage_in_a_response_costs_the_batches_that_it_hits_or_ends_the_query(
    monkeypatch: pytest.MonkeyPatch, number: int, changed: bytes, expected: list[int | None], words: str
) -> None:
    batches = [*BATCHES[:number], changed, *BATCHES[number + 1 :]] if number else [changed]
    serve(monkeypatch, batches)
    asked = options.parse({"bootstrap.servers": "127.0.0.1:9", "columns": "committed_offset,error"})
    found: list[int | None] = []
    with pytest.raises(ProtocolError, match=words) if words else nullcontext():
        for batch in live.read(asked.connections, Range(0, 0, 3), asked.query):
            for row in reference.listed(batch):
                assert (row["committed_offset"] is None) == (row["error"] is not None)
                found.append(row["committed_offset"])
    assert found == expected


def test_batches_that_do_not_advance_end_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, [BATCHES[0], BATCHES[1], BATCHES[0]])
    asked = options.parse({"bootstrap.servers": "127.0.0.1:9", "columns": "committed_offset"})
    with pytest.raises(ProtocolError, match="no valid batch with offset 1"):
        list(live.read(asked.connections, Range(0, 0, 3), asked.query))


def test_a_marker_after_damage_in_a_response_ends_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = bytes(
        encode_batch(
            [commit("g", "t", 0, 7)], base_offset=0, producer_id=5, producer_epoch=0, transactional=True
        )
    )
    serve(monkeypatch, [open_, with_bytes(BATCHES[1], MAGIC_POSITION, b"\11"), marker(2, 5, committed=True)])
    asked = options.parse({"bootstrap.servers": "127.0.0.1:9", "columns": "committed_offset"})
    rows = [
        row
        for each in live.read(asked.connections, Range(0, 0, 1), asked.query)
        for row in reference.listed(each)
    ]
    assert {"committed_offset": 7} in rows


def test_a_range_of_offsets_is_a_share_of_the_log(broker: Broker) -> None:
    for number in range(10):
        broker.commit("billing", {("orders", 0): number})
    with topic_of(broker) as topic:
        begin, end = topic.offsets(end=False), topic.offsets(end=True)
    whole = [row for part in planned(begin, end, 1_000) for row in read(broker, part)]
    cut = [row for part in planned(begin, end, 3) for row in read(broker, part)]
    assert len(planned(begin, end, 3)) >= 4
    assert cut == whole


def test_the_log_is_read_over_tls_by_a_user(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with Broker(secured.config("SASL_SSL"), users={USER: PASSWORD}) as broker:
        broker.create_topic("orders")
        broker.commit("billing", {("orders", 0): 7})
        properties = secured.java(broker.bootstrap_servers, "SASL_SSL", "SCRAM-SHA-256")
        asked = options.parse({f"kafka.{key}": value for key, value in properties.items()})
        with live.OffsetsTopic(asked.connections) as topic:
            end = topic.offsets(end=True)
        pickled = pickle.loads(pickle.dumps(asked))  # as tasks receive it
        rows = [
            row
            for part in planned({}, end, 1_000)
            for batch in live.read(pickled.connections, part, asked.query)
            for row in reference.listed(batch)
        ]
        jaas = properties["sasl.jaas.config"].replace(PASSWORD, "wrong")
        wrong = options.parse(
            {f"kafka.{key}": value for key, value in properties.items()} | {"kafka.sasl.jaas.config": jaas}
        )
        with live.OffsetsTopic(wrong.connections) as topic, pytest.raises(RefusedError, match="SASL"):
            topic.offsets(end=True)
    assert [row["committed_offset"] for row in rows] == [7]
    assert properties["sasl.jaas.config"] not in repr(asked)


def test_a_cluster_without_commits_has_an_empty_log(broker: Broker) -> None:
    with topic_of(broker) as topic:
        assert topic.offsets(end=True) == {}


def test_leaders_that_move_are_looked_for_until_they_are_found() -> None:
    pauses: list[float] = []
    with Broker({"offsets.topic.num.partitions": 1}) as kafka:
        kafka.create_topic("orders")
        kafka.commit("billing", {("orders", 0): 7})
        kafka.faults.leader_moved(live.TOPIC, n=3)
        with topic_of(kafka) as topic:
            topic._retries = Retries(0.8, clock=lambda: sum(pauses), pause=pauses.append)
            assert topic.offsets(end=True) == {0: 1}
            assert len(pauses) == 3
            kafka.faults.leader_moved(live.TOPIC)
            with pytest.raises(RefusedError, match="offsets of __consumer_offsets-0: NOT_LEADER_OR_FOLLOWER"):
                topic.offsets(end=True)
            kafka.faults.clear()
            kafka.faults.error("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            pauses.clear()
            with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
                topic.offsets(end=True)
            assert not pauses
