"""The logs in memory have a limit: beyond it Produce is refused, and told the key, until there is room again."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.api.topic_admin import create_topic
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import appends
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import fetch

MIB = 1 << 20
LIMIT = 8 * MIB
VALUE = bytes(100_000)


class Story:
    """A broker whose logs have a limit, with two topics, and a producer of 100 kB at a time."""

    def __init__(self, **keys: Any) -> None:
        given: dict[str, Any] = {"log_memory_max_bytes": LIMIT} | keys
        self.core = make_core(**{name: value for name, value in given.items() if value is not None})
        for topic in ("t", "u"):
            create_topic(self.core.broker, topic, 1, {})
        self.client = CoreClient(self.core)
        self.sent = 0

    def produce(self, topic: str = "t", **fields: Any) -> tuple[int, str | None]:
        """Return error code and message of one batch."""
        made = messages.ProduceRequest
        batch = bytes(encode_batch([(None, VALUE, (), 0)], **fields))
        data = made.TopicProduceData(topic, bytes(16), [made.PartitionProduceData(0, batch)])
        (topic_answer,) = self.client.call(made(None, -1, 1000, [data]), 9).responses
        (answer,) = topic_answer.partition_responses
        self.sent += not answer.error_code
        return answer.error_code, answer.error_message

    def fill(self) -> None:
        """Produce until a batch is refused."""
        for _ in range(2 * LIMIT // len(VALUE)):
            if self.produce()[0]:
                return
        raise AssertionError("nothing is refused")

    def delete_records(self, offset: int = -1) -> None:
        made = messages.DeleteRecordsRequest
        topic = made.DeleteRecordsTopic("t", [made.DeleteRecordsPartition(0, offset)])
        answer = self.client.call(made([topic], 1000), 2)
        assert answer.topics[0].partitions[0].error_code == 0

    def delete_topic(self) -> None:
        answer = self.client.call(messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        assert answer.responses[0].error_code == 0

    def let_records_expire(self) -> None:
        self.core.clock.advance(8 * 24 * 3_600_000)  # type: ignore[attr-defined]
        for _ in range(50):
            self.core.run_due()
            self.core.end_turn()
            self.core.clock.advance(10)  # type: ignore[attr-defined]


def memory_of(core: BrokerCore) -> int:
    assert isinstance(core.directory.files, MemoryFiles)
    return core.directory.files.nbytes


def test_beyond_the_limit_produce_is_refused_and_everything_else_goes_on() -> None:
    story = Story()
    story.fill()
    assert 0.6 * LIMIT < story.sent * len(VALUE) <= LIMIT
    for topic in ("t", "u"):
        error, message = story.produce(topic)
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert message is not None and f"log.memory.max.bytes is {LIMIT}" in message
    assert memory_of(story.core) < 1.1 * LIMIT
    assert story.client.commit("g", {("t", 0): 5}) == {("t", 0): 0}
    assert story.client.committed("g") == {("t", 0): 5}
    assert len(fetch(story.core, "t", story.sent - 1).records) > len(VALUE)


@pytest.mark.parametrize("delete", [Story.delete_records, Story.delete_topic, Story.let_records_expire])
def test_deletions_make_room(delete: Callable[[Story], None]) -> None:
    story = Story(connections_max_idle_ms=-1)
    story.fill()
    delete(story)
    assert memory_of(story.core) < MIB
    assert story.produce("u")[0] == 0


def test_an_active_segment_of_which_all_records_are_deleted_takes_no_memory() -> None:
    story = Story(log_memory_max_bytes=1 << 30)
    for _ in range(30):
        assert story.produce()[0] == 0
    assert memory_of(story.core) > 2 * MIB
    story.delete_records()
    assert memory_of(story.core) < MIB


def test_deleting_half_of_the_records_makes_half_of_the_room() -> None:
    story = Story()
    story.fill()
    story.delete_records(story.sent // 2)
    assert memory_of(story.core) < 0.6 * LIMIT
    assert story.produce()[0] == 0


def test_one_line_of_the_log_says_it_and_another_one_when_the_limit_is_exceeded_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = Story()
    with caplog.at_level(logging.WARNING):
        story.fill()
        story.produce()
        assert len(caplog.messages) == 1
        assert "KAFKA_STORAGE_ERROR" in caplog.text and "log.memory.max.bytes" in caplog.text
        story.delete_records()
        story.fill()
        assert len(caplog.messages) == 2


def test_a_repeat_of_an_accepted_batch_is_answered_as_before() -> None:
    story = Story()
    assert story.produce(producer_id=7, producer_epoch=0, base_sequence=0) == (0, None)
    story.fill()
    assert story.produce(producer_id=7, producer_epoch=0, base_sequence=0) == (0, None)
    assert story.produce(producer_id=7, producer_epoch=0, base_sequence=1)[0]


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A machine of 16 MiB."""
    appends.default_max_bytes.cache_clear()
    monkeypatch.setattr(appends, "machine_bytes", lambda: 16 * MIB)
    yield 16 * MIB
    appends.default_max_bytes.cache_clear()


def test_without_the_key_it_is_a_quarter_of_the_machine(small_machine: int) -> None:
    story = Story(log_memory_max_bytes=None)
    story.fill()
    assert 0.6 * small_machine / 4 < story.sent * len(VALUE) <= small_machine / 4


def test_logs_on_disk_have_no_limit(tmp_path: Path) -> None:
    story = Story(files=DiskFiles(tmp_path), log_memory_max_bytes=1000)
    assert story.produce()[0] == 0
    story.core.close()
