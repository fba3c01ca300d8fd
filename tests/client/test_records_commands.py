"""`produce` and `consume`: what is not written is not committed, what is sent fits, what is wrong is refused."""

import argparse
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.client.consumer.record import ConsumerRecord
from kafka_offsets.commands.records import consuming, producing
from kafka_offsets.commands.records.reading import RecordReader
from kafka_offsets.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", 3)
        yield running


def left(broker: Broker) -> set[str]:
    """The records that the group has not consumed."""
    offsets = {place: entry.offset for place, entry in broker.committed("billing").items()}
    return {
        str(record.value.decode())
        for record in broker.consume_all("orders")
        if record.value is not None and record.offset >= offsets.get((record.topic, record.partition), 0)
    }


class Polls(consuming._ConsumerWithPositions):
    """A consumer whose polls return these records."""

    def __init__(self, *polls: list[ConsumerRecord]) -> None:
        self.polls, self.moved = list(polls), []

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the records of the next poll."""
        return self.polls.pop(0)

    def position(self, offsets: object) -> None:
        """Note where the consumer goes."""
        self.moved.append(offsets)


def test_a_record_over_the_count_is_not_consumed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def records(partition: int, count: int) -> list[ConsumerRecord]:
        return [
            ConsumerRecord("orders", partition, n, 0, None, b"%d-%d" % (partition, n)) for n in range(count)
        ]

    consumer = Polls(records(0, 7), records(1, 5) + records(2, 5))
    consuming._write(consumer, lambda record: (record.value or b"") + b" ", 10, None)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"0-0 0-1 0-2 0-3 0-4 0-5 0-6 1-0 1-1 1-2 "
    assert consumer.moved == [[("orders", 1, 3), ("orders", 2, 0)]], "these partitions had more records"


@pytest.mark.slow
def test_a_group_commits_no_record_that_could_not_be_written(broker: Broker) -> None:
    broker.produce("orders", ["a", "b", "c"])
    command = [sys.executable, "-m", "kafka_offsets.cli", "consume", "orders", "-G", "billing", "-c", "3"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command, "--bootstrap-server", broker.bootstrap_servers],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode != 0 and "No space left" in done.stderr
    assert left(broker) == {"a", "b", "c"}


@pytest.mark.parametrize("option", ["-K", "-D"])
def test_an_empty_delimiter_is_refused(
    broker: Broker, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    where = ["--bootstrap-server", broker.bootstrap_servers]
    assert cli.main(["produce", "orders", "-l", str(lines), option, "", *where]) != 0
    assert "at least one character" in capsys.readouterr().err


def test_records_that_are_sent_together_stay_below_the_limit() -> None:
    sizes = [511 << 10, 600 << 10, 1, 2]
    lines = io.BufferedReader(io.BytesIO(b"\n".join(b"v" * size for size in sizes)))
    record = {
        "key": None,
        "key_delimiter": None,
        "header": [("h", "v")],
        "null": False,
        "partition": None,
        "count": None,
    }
    options = argparse.Namespace(**record, linger=3_600_000)
    batches = producing._batches(options, RecordReader(lines, b"\n"))
    together = [[len(each.value or b"") for each in found] for found in batches]
    assert together == [[511 << 10], [600 << 10], [1, 2]]


# -- keys that say the same as options

LATE, EARLY = "auto.offset.reset=latest", "auto.offset.reset=earliest"


@pytest.mark.parametrize(
    ("words", "printed", "has_committed"),
    [
        (["-X", "group.id=billing"], b"a b ", True),
        (["-X", "group_id=billing", "-X", LATE], b"", True),
        (["-X", "group.id=billing", "-X", "auto.offset.reset=smallest"], b"a b ", True),
        (["-X", "group.id=other", "-G", "billing", "-X", EARLY], b"a b ", True),
        (["-X", LATE], b"", False),
        (["-X", "auto.offset.reset=largest"], b"", False),
        (["-X", EARLY], b"a b ", False),
        (["-X", LATE, "-o", "1"], b"b ", False),
        (["-X", "auto.offset.reset=none", "-o", "1"], b"b ", False),
        (["-p", "0"], b"a b ", False),
    ],
)
def test_a_group_and_where_it_starts_are_client_properties_too(
    broker: Broker,
    capfdbinary: pytest.CaptureFixture[bytes],
    words: list[str],
    printed: bytes,
    has_committed: bool,
) -> None:
    broker.produce("orders", ["a", "b"], partition=0)
    command = ["consume", "orders", "-e", "-f", "%s ", "-b", broker.bootstrap_servers]
    assert cli.main([*command, *words]) == 0
    found = capfdbinary.readouterr()
    assert found.out == printed and not found.err
    assert bool(broker.committed("billing")) == has_committed and not broker.committed("other")


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["-X", "group.id=billing", "-p", "0"], 0, "client properties: without effect here: group.id"),
        (["-X", "group.id=billing", "-o", "end"], 0, "client properties: without effect here: group.id"),
        (
            ["-X", "auto.offset.reset=soon"],
            2,
            (
                "auto.offset.reset is soon: one of earliest, smallest, beginning, latest, largest, end, none, "
                "error is needed"
            ),
        ),
        (
            ["-X", "auto.offset.reset=none"],
            2,
            "auto.offset.reset is none, and nothing says where to start: name it with -o",
        ),
    ],
)
def test_a_property_that_an_option_excludes_is_named(
    broker: Broker, capsys: pytest.CaptureFixture[str], words: list[str], code: int, line: str
) -> None:
    command = ["consume", "orders", "-e", "-b", broker.bootstrap_servers]
    assert cli.main([*command, *words]) == code
    assert capsys.readouterr().err == f"kafka-offsets: {line}\n"
    assert not broker.committed("billing")
