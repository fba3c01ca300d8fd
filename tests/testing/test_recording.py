"""Requests and answers as they passed: chosen among, within bounds, and in captures that `inspect` reads."""

import socket
import struct
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kafka_offsets import ErrorCode
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.commands import inspect as command
from kafka_offsets.inspect.capture import timeline
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker, record_produced
from kafka_offsets.testing.server import recording
from tests.drivers import wire
from tests.drivers.wire import Connection


@pytest.fixture
def broker():
    with Broker(record=True) as running:
        yield running


def consume(broker: Broker, group: str = "billing") -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": f"client of {group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    assert message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()


def test_requests_are_decoded_and_can_be_chosen(broker: Broker) -> None:
    broker.produce("orders", ["first"])
    broker.create_topic("other")
    consume(broker, "billing")
    consume(broker, "shipping")
    (commit,) = broker.requests.of("OffsetCommit", group="billing")
    assert isinstance(commit.request, messages.OffsetCommitRequest)
    assert commit.request.topics[0].partitions[0].committed_offset == 1
    assert isinstance(commit.response, messages.OffsetCommitResponse)
    assert (commit.client_id, commit.groups, commit.topics) == (
        "client of billing",
        {"billing"},
        {"orders"},
    )
    assert commit.latency_ms is not None and 0 <= commit.latency_ms < 10_000
    joins = broker.requests.of("JoinGroup", client_id="client of shipping")
    assert [list(join.errors) for join in joins] == [["MEMBER_ID_REQUIRED"], []]
    for error in ("MEMBER_ID_REQUIRED", ErrorCode.MEMBER_ID_REQUIRED, 79):
        assert broker.requests.of(error=error, group="shipping") == joins[:1]
    assert str(broker.requests[-2:]).count("\n") == 1
    assert broker.requests[-1:].of(api=broker.requests[-1].api) == broker.requests[-1:]
    for unknown in ("MEMBER_ID_REQUESTED", 9999):
        with pytest.raises(ValueError, match=f"{unknown} is no error code"):
            broker.requests.of(error=unknown)
    assert broker.requests.of("FindCoordinator", group="billing")
    assert broker.requests.of(topic="orders").of("Fetch")  # by its id
    assert not broker.requests.of(topic="other")
    numbers = [each.number for each in broker.requests]
    assert numbers == sorted(numbers)
    with pytest.raises(ValueError, match="no API is called 'OffsetComit'"):
        broker.requests.of("OffsetComit")


def test_requests_are_there_when_the_broker_has_stopped(broker: Broker) -> None:
    broker.produce("orders", ["first"])
    consume(broker)
    broker.stop()
    assert broker.requests.of("LeaveGroup")


def test_a_broker_that_does_not_record_has_no_tapes_and_says_so(tmp_path: Path) -> None:
    with Broker() as broker, Connection(broker.bootstrap_servers) as connection:
        assert connection.api_versions() == 0
        peers = broker._call(lambda server: {type(peer) for peer in server._peers})
        assert peers == {Peer}
        for ask in (lambda: broker.requests, lambda: broker.save_capture(tmp_path / "x.jsonl")):
            with pytest.raises(RuntimeError, match=r"Broker\(record=True\)"):
                ask()


@pytest.mark.parametrize("name", ["wire.jsonl", "wire.jsonl.gz"])
def test_a_capture_is_what_inspect_reads(
    broker: Broker, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.produce("orders", ["first"])
    consume(broker)
    broker.stop()
    path = tmp_path / name
    lines = broker.save_capture(path)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    events = list(timeline(str(path)))
    assert len(events) == lines
    assert not [event for event in events if event.problem]
    asked = [event.api for event in events if event.kind == "request"]
    assert asked == [each.api for each in broker.requests]
    answered = [event for event in events if event.kind == "response"]
    assert sorted(event.latency_ms for event in answered) == pytest.approx(
        sorted(each.latency_ms for each in broker.requests if each.latency_ms is not None), abs=0.01
    )
    assert command.main([str(path)]) == 0
    assert "errors: MEMBER_ID_REQUIRED" in capsys.readouterr().out


def test_the_name_of_a_capture_says_what_it_is(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.jsonl"):
        broker.save_capture(tmp_path / "wire.txt")


def test_the_oldest_requests_are_dropped_when_there_are_too_many_bytes_or_requests() -> None:
    def frame(number: int, size: int) -> bytes:
        return struct.pack(">ihhih", 10 + size, 3, 0, number, -1) + bytes(size)

    recorder = recording.Recorder(max_requests=3, max_bytes=1000)
    tape = recorder.open("peer")
    for number in range(5):
        tape.received(frame(number, 4), 0)
    assert [each.correlation_id for each in recorder.requests()] == [2, 3, 4]
    tape.sent([struct.pack(">ii", 4, number) for number in range(5)])
    assert [each.latency_ms is not None for each in recorder.requests()] == [True] * 3
    tape.received(frame(5, 900), 0)
    tape.sent([struct.pack(">ii", 84, 5) + bytes(80)])
    assert [each.correlation_id for each in recorder.requests()] == [5]
    assert recorder._bytes == 910 + 84


def test_frames_are_found_however_they_are_cut() -> None:
    recorder = recording.Recorder()
    tape = recorder.open("peer")
    asked = b"".join(struct.pack(">ihhih", 10, 18, 0, number, -1) for number in range(3))
    for at in range(len(asked)):
        tape.received(asked[at : at + 1], 0)
    answers = b"".join(struct.pack(">iihi", 10, number, 0, 0) for number in range(3))
    for at in range(len(answers)):
        tape.sent([answers[at : at + 1]])
    assert [each.response.error_code for each in recorder.requests()] == [0, 0, 0]


def test_what_is_no_request_ends_the_tape_and_not_the_broker(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as peer:
        peer.sendall(b"\xff" * 20)
        assert peer.recv(10) == b""
    with Connection(broker.bootstrap_servers) as connection:
        assert connection.api_versions() == 0
    assert [each.api for each in broker.requests] == ["ApiVersions"]


def test_an_unknown_version_and_an_unknown_api_are_recorded(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as peer:
        peer.sendall(wire.frame(18, 99, 7, b"\0"))
        assert peer.recv(4)
        peer.sendall(wire.frame(999, 0, 8, b""))
        while peer.recv(1000):
            pass
    first, second = broker.requests
    assert (first.version, first.request, list(first.errors)) == (99, None, ["UNSUPPORTED_VERSION"])
    assert (second.api, second.request, second.response) == ("API 999", None, None)
    assert "unanswered" in str(second)


def test_records_without_acknowledgement_leave_no_request_waiting_in_the_way(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": 0})
    for _ in range(5):
        producer.produce("orders", "x")
        producer.flush(20)
    broker.wait_for(record_produced("orders", count=5))
    sent = broker.requests.of("Produce")
    assert sent and all(each.latency_ms is None for each in sent)


def test_large_answers_are_recorded_whole(broker: Broker) -> None:
    broker.produce("orders", [bytes(300_000)])
    consume(broker)
    fetched = [each for each in broker.requests.of("Fetch") if each.response is not None]
    sizes = [
        len(partition.records or b"")
        for each in fetched
        for topic in each.response.responses
        for partition in topic.partitions
    ]
    assert max(sizes) > 300_000
