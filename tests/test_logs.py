"""A client cannot forge a line of the log, whatever it calls its topics, its groups and itself."""

import io
import logging
from collections.abc import Iterator

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.terminal import printable
from tests.drivers.core import CoreClient, make_core

FORGED = "2026-11-22 12:00:00,000 ERROR the disk is gone"
NAMES = [f"t{character}{FORGED}" for character in "\n\r\x1b\x0b\x85\u2028\u202e\x00\x7f"]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a handler of the root logger writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_refused_produce_is_one_printable_line(name: str, lines: io.StringIO) -> None:
    client = CoreClient(make_core())
    request = messages.ProduceRequest
    partition = request.PartitionProduceData(0, b"")
    client.send((request(acks=0, topic_data=[request.TopicProduceData(name, partition_data=[partition])]), 9))
    client.core.end_turn()
    written = lines.getvalue()
    assert FORGED in written
    assert written.endswith("\n")
    assert written[:-1].isprintable()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_traceback_begins_no_line(name: str, lines: io.StringIO) -> None:
    logger = new_logger("kafka_offsets.test")
    try:
        raise StorageError(name)
    except StorageError as error:
        logger.exception("%s: %s of %d", name, error, 1)
    first, *others = lines.getvalue().split("\n")[:-1]
    assert first == f"ERROR {printable(name)}: {printable(name)} of 1"
    assert first.isprintable()
    assert len(others) > 2
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_what_is_printable_is_logged_as_it_is(lines: io.StringIO) -> None:
    new_logger("kafka_offsets.test").info("%s, %d, %r", "grüße 客户 \\n", 7, "x")
    assert lines.getvalue() == "INFO grüße 客户 \\n, 7, 'x'\n"
