"""Random producing, fetching, deleting and restarting, against a list."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import read_batch_header, read_records
from tests.drivers.partitions import PartitionCore, batch, whole_batches

VALUES = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


class Waiting:
    """A fetch that has not been answered: what it wants, and where the log ended when it came."""

    def __init__(self, offset: int, deadline_ms: int) -> None:
        self.offset = offset
        self.deadline_ms = deadline_ms


class PartitionMachine(RuleBasedStateMachine):
    """`log` holds a value for each offset; `start` is the first that may be read."""

    @initialize()
    def begin(self) -> None:
        self.core = PartitionCore(fetch_first_wait_ms=0)
        self.core.topics.create("t", 1, {"internal.segment.bytes": "300"})
        self.log: list[bytes] = []
        self.batches: dict[int, int] = {}
        self.start = 0
        self.sequences: dict[int, int] = {}
        self.sent: dict[int, list[tuple[int, bytes, int]]] = {}
        self.waiting: dict[int, Waiting] = {}
        self.connections = 0

    def append(self, values: list[bytes], data: bytearray) -> None:
        answer = self.core.produce("t", data)
        assert (answer.error_code, answer.base_offset) == (0, len(self.log))
        self.batches[len(self.log)] = len(values)
        self.log += values
        self.core.turn()

    @rule(values=VALUES, codec=st.sampled_from(Compression))
    def produce(self, values: list[bytes], codec: Compression) -> None:
        self.append(values, batch(*values, compression=codec))

    @rule(values=VALUES, producer=st.integers(0, 2))
    def produce_idempotently(self, values: list[bytes], producer: int) -> None:
        sequence = self.sequences.get(producer, 0)
        data = batch(*values, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        sent = self.sent.setdefault(producer, [])
        sent.append((sequence, bytes(data), len(self.log)))
        self.sequences[producer] = sequence + len(values)
        self.append(values, data)

    @rule(producer=st.integers(0, 2), back=st.integers(1, 7))
    def send_again(self, producer: int, back: int) -> None:
        sent = self.sent.get(producer, [])
        if back > len(sent):
            return
        _, data, offset = sent[-back]
        answer = self.core.produce("t", data)
        if back <= 5:
            assert (answer.error_code, answer.base_offset) == (0, offset)
        else:
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(values=VALUES)
    def produce_damaged(self, values: list[bytes]) -> None:
        data = batch(*values)
        data[-1] ^= 1
        assert self.core.produce("t", data).error_code == ErrorCode.CORRUPT_MESSAGE

    @rule(offset=st.integers(-2, 60))
    def delete_records(self, offset: int) -> None:
        request = messages.DeleteRecordsRequest
        asked = request.DeleteRecordsTopic("t", [request.DeleteRecordsPartition(0, offset)])
        (answer,) = self.core.send(request([asked]), 2).topics[0].partitions
        wanted = len(self.log) if offset == -1 else offset
        if not 0 <= wanted <= len(self.log):
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            return
        self.start = max(self.start, wanted)
        assert (answer.error_code, answer.low_watermark) == (0, self.start)

    @rule(offset=st.integers(-1, 60), limit=st.integers(0, 400))
    def fetch(self, offset: int, limit: int) -> None:
        answer = self.core.fetch_one("t", 0, offset, limit)
        if not self.start <= offset <= len(self.log):
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            return
        self.check(answer, offset)
        found = whole_batches(answer.records)
        assert len(found) <= 1 or len(answer.records) <= limit

    def check(self, answer: Any, offset: int) -> None:
        """Compare an answer with the list: consecutive batches from the one that holds `offset`."""
        assert (answer.error_code, answer.log_start_offset, answer.high_watermark) == (
            0,
            self.start,
            len(self.log),
        )
        found = whole_batches(answer.records)
        assert bool(found) == (offset < len(self.log))
        expected = None
        for one in found:
            header = read_batch_header(one)
            assert self.batches[header.base_offset] == header.record_count
            assert expected in (None, header.base_offset)
            if expected is None:
                assert header.base_offset <= offset <= header.last_offset
            expected = header.last_offset + 1
            for record in read_records(one):
                assert record.value == self.log[record.offset]

    @rule(wait_ms=st.integers(1, 100))
    def fetch_at_the_end(self, wait_ms: int) -> None:
        connection = self.connections = self.connections + 1
        end = len(self.log)
        assert self.core.fetch(("t", 0, end), max_wait_ms=wait_ms, connection=connection) is None
        self.waiting[connection] = Waiting(end, self.core.now.mono_ms + wait_ms)

    @rule(ms=st.integers(0, 60))
    def wait(self, ms: int) -> None:
        self.core.advance(ms)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """The log is the memory of its producers: batches that were deleted are not known afterwards."""
        self.core = self.core.restart(clean=clean)
        self.waiting.clear()
        for producer, sent in self.sent.items():
            self.sent[producer] = [row for row in sent if row[2] + self.batches[row[2]] > self.start]

    @invariant()
    def fetches_are_answered_when_they_are_due_and_not_before(self) -> None:
        if not hasattr(self, "core"):
            return
        answers, self.core.answers = self.core.answers, []
        for client, response in answers:
            waiting = self.waiting.pop(client, None)
            if waiting is None:
                continue
            answer = response.responses[0].partitions[0]
            grown = len(self.log) > waiting.offset
            assert grown or self.core.now.mono_ms >= waiting.deadline_ms
            if waiting.offset < self.start:
                assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                self.check(answer, waiting.offset)
        for waiting in self.waiting.values():
            assert waiting.offset == len(self.log)
            assert self.core.now.mono_ms < waiting.deadline_ms
        assert self.core.waiting_deadlines == len(self.waiting)

    @invariant()
    def everything_that_was_acknowledged_is_there(self) -> None:
        if hasattr(self, "core"):
            expected = list(enumerate(self.log))[self.start :]
            assert self.core.values("t", self.start) == expected


TestPartition = pytest.mark.slow(PartitionMachine.TestCase)


def test_a_parked_fetch_gets_records_appended_while_a_segment_is_deleted() -> None:
    """A restart has not removed the segment yet that ends before the start of the log; the next append does."""
    machine = PartitionMachine()
    machine.begin()
    for values in ([b""], [b""], [b""], [b"", b"", b"", bytes(3)]):
        machine.produce(codec=Compression.NONE, values=values)
    machine.delete_records(offset=-1)
    machine.restart(clean=False)
    machine.produce(codec=Compression.NONE, values=[b"", bytes(2), bytes(17)])
    machine.fetch_at_the_end(wait_ms=1)
    machine.produce(codec=Compression.NONE, values=[b"", b"", bytes(16)])
    machine.fetches_are_answered_when_they_are_due_and_not_before()
    assert not machine.waiting
    machine.teardown()
