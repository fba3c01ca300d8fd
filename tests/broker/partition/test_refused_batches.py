"""Batches that the log refuses: what is undone and answered, in which order, and at what cost."""

import tracemalloc
from typing import Any

import pytest

from kafka_offsets.coordinator.state.result import CoordinatorRecord, Reply, RequestContext, Result
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import join_request


class Refusals:
    """Takes the answers of a shard."""

    def __init__(self) -> None:
        self.refused: list[tuple[int, ErrorCode]] = []

    def respond(self, context: RequestContext, response: Any) -> None:
        raise AssertionError("nothing was written")

    def fail(self, context: RequestContext, error: ErrorCode) -> None:
        self.refused.append((context.correlation_id, error))


def test_batches_of_one_turn_are_undone_from_the_last_and_answered_from_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = make_core()
    CoreClient(core).commit("g", {("t", 0): 1})
    now = core.clock.now()
    hosted = core.runtime.shard_of("g", now)
    refusals = Refusals()
    undone: list[int] = []
    monkeypatch.setattr(hosted, "_sender", refusals)

    def refuse(batch: bytes, last_offset: int, max_timestamp: int) -> None:
        raise StorageError("no space left", hosted.log.directory)

    monkeypatch.setattr(hosted.log, "append_batch", refuse)
    for number in range(6):  # each in a batch of its own
        context = RequestContext(None, 8, 8, number, "", "")
        record = CoordinatorRecord(b"key %d" % number, bytes(600_000))
        hosted.decide(Result([record], (Reply(context, None),), lambda number=number: undone.append(number)))
    hosted.append(now)
    assert undone == [5, 4, 3, 2, 1, 0]
    assert refusals.refused == [(number, ErrorCode.NOT_COORDINATOR) for number in range(6)]


def synced(client: CoreClient, assignment: bytes) -> messages.SyncGroupRequest:
    """Join a new group; return the SyncGroup of its leader."""
    sync = messages.SyncGroupRequest
    client.send((join_request(metadata=b"m", session_ms=30_000), 3))
    client.turn()
    client.turn()
    (joined,) = client.take()
    given = sync.Assignment(joined.member_id, assignment)
    return sync("g", joined.generation_id, joined.member_id, assignments=[given])


def test_assignments_that_no_batch_takes_are_not_encoded(caplog: pytest.LogCaptureFixture) -> None:
    # A SyncGroup of 90 MB was encoded, joined and checksummed before its size was looked at, which took 400 ms.
    client = CoreClient(make_core(group_initial_rebalance_delay_ms=0))
    size = 8 << 20
    request = synced(client, bytes(size))
    frame = client.frame(request, 2)
    tracemalloc.start()
    try:
        client.send_bytes(frame)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 2.2 * size  # the frame and the assignment
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        client.turn()
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < size / 10
    finally:
        tracemalloc.stop()
    (answer,) = client.take()
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "bytes, 1048588 are allowed" in caplog.text
    beat = messages.HeartbeatRequest("g", request.generation_id, request.member_id)
    assert client.call(beat, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("size", "error"), [(1_048_331, ErrorCode.NONE), (1_048_332, ErrorCode.UNKNOWN_SERVER_ERROR)]
)
def test_the_largest_assignment_is_that_of_kafka(size: int, error: ErrorCode) -> None:
    # Apache Kafka 4.3.1, whose clients and groups have ids of these lengths.
    client = CoreClient(make_core(group_initial_rebalance_delay_ms=0), client_id="c")
    sync = messages.SyncGroupRequest
    metadata = b"\0\0\0\0\0\1\0\1t\0\0\0\x0a" + bytes(10)
    client.send((join_request("bisect-001", metadata=metadata, session_ms=30_000), 3))
    client.turn()
    client.turn()
    (joined,) = client.take()
    given = sync.Assignment(joined.member_id, bytes(size))
    request = sync("bisect-001", joined.generation_id, joined.member_id, assignments=[given])
    assert client.call(request, 2).error_code == error


def test_assignments_that_fit_once_they_are_compressed_are_stored() -> None:
    client = CoreClient(make_core(group_initial_rebalance_delay_ms=0, offsets_topic_compression_codec=1))
    assert client.call(synced(client, bytes(2 << 20)), 2).assignment == bytes(2 << 20)
