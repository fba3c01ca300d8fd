"""`kafka-offsets produce` and `consume` beside kcat, on this broker and on Apache Kafka."""

import io
import json
import subprocess
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.client.cluster import LATEST, ClusterClient
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.errors import RefusedError
from kafka_offsets.protocol import messages
from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = pytest.mark.interop


class Commands:
    """Runs the two commands, and kcat, with one broker and topic."""

    def __init__(
        self, home: str, topic: str, capfd: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.home, self.topic = home, topic
        self._capfd, self._monkeypatch = capfd, monkeypatch
        self.error = b""

    def __call__(self, command: str, *words: str, given: bytes = b"", code: int = 0) -> bytes:
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        found = cli.main([command, self.topic, *words, "-b", self.home])
        printed, self.error = self._capfd.readouterr()
        assert found == code, self.error
        return printed

    def kcat(self, *words: str, given: bytes = b"") -> bytes:
        command = ["kcat", "-b", self.home, "-t", self.topic, "-q", *words]
        return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def is_led(cluster: ClusterClient, topic: str) -> bool:
    """Kafka's broker learns of a new topic after the controller has answered."""
    try:
        return min(cluster.offsets_at({(topic, partition): LATEST for partition in range(3)}).values()) == 0
    except RefusedError:
        return False


@pytest.fixture
def run(
    home: str, names: Names, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    topic = names.topic("records")
    request = messages.CreateTopicsRequest
    with Connection(*parse_address(home)) as connection:
        answer = connection.call(request([request.CreatableTopic(topic, 3, 1)], 20_000), 5)
    assert answer.topics[0].error_code == 0
    with ClusterClient(parse_address(home)) as cluster:
        until(lambda: is_led(cluster, topic), "a leader of every partition")
    return Commands(home, topic, capfdbinary, monkeypatch)


FORMATS = [
    ("-f", r"%t %p %o %k %s %K %S\n"),
    ("-f", r"%k=%s;%%\t%h\x21\n"),
    ("-Z", "-f", r"%k|%s|%R\n"),
    ("-K", ":"),
    (),
]


def test_kcat_prints_the_same_of_what_was_produced(run: Commands, kcat: str) -> None:
    run(
        "produce",
        "-K",
        ":",
        "-H",
        "a=1",
        "-H",
        "b=",
        "-z",
        "zstd",
        given="k1:v1\nk2:v:2\nno key\nk3:ü\n".encode(),
    )
    for options in FORMATS:
        of_kcat = sorted(run.kcat("-C", "-e", "-o", "beginning", *options).splitlines())
        assert sorted(run("consume", "-e", *options).splitlines()) == of_kcat
    ours = {
        line["offset"]: line for line in map(json.loads, run("consume", "-e", "-J", "-p", "0").splitlines())
    }
    for line in map(json.loads, run.kcat("-C", "-e", "-J", "-p", "0").splitlines()):
        assert {key: line[key] for key in ours[line["offset"]]} == ours[line["offset"]]


def test_keys_are_placed_as_by_javas_producer_and_lines_in_turn(run: Commands, kcat: str) -> None:
    keyed = b"".join(b"k%d:v\n" % number for number in range(20))
    run("produce", "-K", ":", given=keyed)
    run.kcat("-P", "-K", ":", "-X", "partitioner=murmur2_random", given=keyed)
    placed = sorted(run("consume", "-e", "-f", r"%k %p\n").splitlines())
    assert placed[::2] == placed[1::2]
    printed = run("produce", "--json", given=b"a\nb\nc\nd\n")
    assert [json.loads(line)["partition"] for line in printed.splitlines()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["-o", "beginning", "-e"], [0, 1, 2, 3, 4]),
        (["-o", "-2", "-e"], [3, 4]),
        (["-o", "3", "-e"], [3, 4]),
        (["-o", "99", "-e"], []),
        (["-o", "end", "-e"], []),
        (["-o", "s@0", "-e"], [0, 1, 2, 3, 4]),
        (["-o", "s@9999999999999", "-e"], []),
        (["-c", "2"], [0, 1]),
    ],
)
def test_the_first_and_the_last_record_are_chosen(
    run: Commands, options: list[str], values: list[int]
) -> None:
    run("produce", "-p", "1", given=b"0\n1\n2\n3\n4\n")
    assert run("consume", "-p", "1", *options) == b"".join(b"%d\n" % value for value in values)


def test_a_group_continues_where_it_was(run: Commands, names: Names) -> None:
    group = names.group("reading")
    run("produce", "-p", "0", given=b"0\n1\n2\n3\n4\n")
    assert run("consume", "-G", group, "-c", "2") == b"0\n1\n"
    with Coordinator(parse_address(run.home), group) as coordinator:
        assert coordinator.committed()[run.topic, 0].offset == 2
    assert run("consume", "-G", group, "-e") == b"2\n3\n4\n"


def test_other_delimiters_files_and_null_values(run: Commands, tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_bytes(b"a|\nb||" + b"c" * 100_000)
    run("produce", "-p", "0", "-D", "|", "-k", "key", "-Z", "-l", str(file))
    assert run("consume", "-e", "-Z", "-f", r"%k %S;") == b"key 1;key 2;key -1;key 100000;"


@pytest.mark.parametrize(
    ("command", "words", "reason"),
    [
        ("consume", ["-f", "%x"], b"%x is none of %% %s"),
        ("consume", ["-f", "%"], b"% ends within a token"),
        ("consume", ["-K", r"\q"], rb"\q is none of \n"),
        ("consume", ["-p", "3"], b"has no partition 3: it has 3"),
        ("produce", ["-p", "3"], b"has no partition 3: it has 3"),
        ("consume", ["-t", "other"], b"name one topic"),
        ("consume", ["-G", "g", "-o", "end"], b"-p and -o are without --group"),
        ("produce", ["-l", "/no/such/file"], b"/no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_reported(
    run: Commands, command: str, words: list[str], reason: bytes
) -> None:
    assert run(command, *words, given=b"a\n", code=cli.CANNOT) == b""
    assert reason in run.error
    assert run.error.count(b"\n") == 1


def test_a_missing_topic_is_created_by_producing_and_not_by_consuming(run: Commands) -> None:
    run.topic += "-new"
    run("produce")
    run("consume", "-e", code=cli.REFUSED)
    assert b"UNKNOWN_TOPIC_OR_PARTITION" in run.error
    run("produce", given=b"first\n")
    assert run("consume", "-e") == b"first\n"
