"""`kafka-offsets groups` and kafka-consumer-groups.sh print the same tables, of this broker and of Apache Kafka."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.protocol import messages
from tests.interop import kafka_peer, real_kafka
from tests.interop.coordinator_client import lengthen_session

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.slow]

SCRIPT = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
Script = Callable[..., list[str]]
EMPTY, READING = "script-empty", "script-reading"


@pytest.fixture(scope="module", autouse=True)
def groups(home: str) -> Iterator[None]:
    """A group with offsets and without members, and one of the consumer protocol with a member."""
    kafka_peer.need_tools()
    topics = messages.CreateTopicsRequest
    with Connection(*parse_address(home)) as connection:
        connection.call(topics([topics.CreatableTopic("scripted", 2, 1)], 5000), 5)
        with Coordinator(parse_address(home), EMPTY) as coordinator:
            coordinator.commit({("scripted", 0): 0, ("scripted", 1): 0}, {})
        lengthen_session(home, READING)
        joined = messages.ConsumerGroupHeartbeatRequest(
            READING,
            "m",
            0,
            None,
            None,
            60_000,
            ["scripted"],
            subscribed_topic_regex=None,
            topic_partitions=[],
        )
        first = connection.call(joined, 1)
        ended = threading.Event()

        def beat() -> None:
            """Keep the session, also in a later epoch of the group."""
            last = first
            while not ended.wait(0.5):
                request = messages.ConsumerGroupHeartbeatRequest(
                    READING, "m", last.member_epoch, subscribed_topic_regex=None
                )
                last = connection.call(request, 1)
                assert last.error_code == 0, last

        thread = threading.Thread(target=beat)
        thread.start()
        yield
        ended.set()
        thread.join()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.fixture
def script(home: str, tmp_path: Path) -> Script:
    """Run Kafka's script several times at once; return what each run prints."""
    silent = tmp_path / "log4j2.yaml"
    silent.write_text("Configuration: {Loggers: {Root: {level: OFF}}}")
    java = real_kafka.tool(silent)

    def run(*commands: list[str]) -> list[str]:
        running = [
            subprocess.Popen(
                [*java, SCRIPT, *words, "--bootstrap-server", home], stdout=subprocess.PIPE, text=True
            )
            for words in commands
        ]
        printed = [each.communicate()[0] for each in running]
        assert [each.returncode for each in running] == [0] * len(commands), printed
        return printed

    return run


def counted(heading: list[str], row: list[str]) -> list[str]:
    """Return a row with the lag of a partition without a commit: from its start, 0 here, to its end."""
    if "LAG" not in heading or row[heading.index("CURRENT-OFFSET")] != "-":
        return row
    at, end = heading.index("LAG"), row[heading.index("LOG-END-OFFSET")]
    assert row[at] == "-"
    return [*row[:at], end, *row[at + 1 :]]


def test_both_print_the_same_tables(home: str, script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    views = [
        ["--describe", "--group", EMPTY, "--group", READING],
        ["--describe", "--group", READING, "--verbose"],
        ["--describe", "--group", READING, "--members", "--verbose"],
        ["--describe", "--group", READING, "--state", "--verbose"],
    ]
    for words, theirs in zip(views, script(*views), strict=True):
        assert cli.main(["groups", *words, "--bootstrap-server", home]) == 0
        heading, *ours = rows(capsys.readouterr().out)
        expected = rows(theirs)
        assert expected[0] == heading
        # The script repeats the headings for each group, and does not count what a group without a commit has to read.
        assert sorted(ours) == sorted(counted(heading, row) for row in expected if row != heading)


def test_each_reads_what_the_other_exports(
    home: str, script: Script, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    reset = ["--reset-offsets", "--group", EMPTY]
    export = [*reset, "--all-topics", "--to-current", "--export", "--dry-run"]
    where = ["--bootstrap-server", home]
    assert cli.main(["groups", *export, *where]) == 0
    ours = capsys.readouterr().out.strip()
    file = tmp_path / "offsets.csv"
    file.write_text(ours + "\n")
    theirs, printed = script(export, [*reset, "--from-file", str(file), "--dry-run"])
    assert sorted(ours.replace('"', "").split()) == sorted(theirs.replace('"', "").split())
    assert sorted(rows(printed)[1:]) == [[EMPTY, "scripted", "0", "0"], [EMPTY, "scripted", "1", "0"]]
    file.write_text(theirs)
    assert cli.main(["groups", *reset, "--from-file", str(file), *where]) == 0
    assert rows(capsys.readouterr().out)[1:] == [[EMPTY, "scripted", str(n), "0", "0"] for n in (0, 1)]
