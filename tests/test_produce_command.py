"""`kafka-offsets produce` with a pipe: when are records sent, and what is one record?"""

import io
import json
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import parse_address
from kafka_offsets.commands.records import producing
from kafka_offsets.commands.records.reading import RecordReader
from kafka_offsets.errors import ConfigError
from kafka_offsets.testing import Broker, record_produced


@contextmanager
def producing_from_a_pipe(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, *options: str
) -> "Iterator[tuple[int, Future[int]]]":
    """Yield where to write lines, and the exit code, which comes when that is closed."""
    read_end, write_end = os.pipe()
    with io.TextIOWrapper(open(read_end, "rb")) as given, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr("sys.stdin", given)
        words = ["produce", "orders", "-b", broker.bootstrap_servers, *options]
        code = pool.submit(cli.main, words)
        try:
            yield write_end, code
        finally:
            if not code.done():
                os.close(write_end)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(record=True) as running:
        running.create_topic("orders")
        yield running


def values(broker: Broker) -> list[bytes | None]:
    return [each.value for each in broker.consume_all("orders")]


def offsets(capsys: pytest.CaptureFixture[str]) -> list[int]:
    return [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]


def test_a_record_is_sent_while_the_pipe_is_open(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with producing_from_a_pipe(monkeypatch, broker, "--json") as (pipe, code):
        for number, line in enumerate([b"a\nb\n", b"c\nbegin"]):
            os.write(pipe, line)
            assert broker.wait_for(record_produced("orders", count=number + 2)) == number + 2
    assert code.result() == 0
    assert values(broker) == [b"a", b"b", b"c", b"begin"]
    assert offsets(capsys) == [0, 2, 3]


def test_records_wait_for_others_up_to_the_linger_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with producing_from_a_pipe(monkeypatch, broker, "--json", "--linger", "600000") as (pipe, code):
        os.write(pipe, b"a\n")
        os.write(pipe, b"b\n" * 2000)
    assert code.result() == 0
    assert offsets(capsys) == [0, 1000, 2000]


def test_after_a_long_pause_it_connects_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "_IDLE_S", -1.0)
    with producing_from_a_pipe(monkeypatch, broker, "--linger", "0") as (pipe, code):
        for count in (1, 2):
            os.write(pipe, b"a\n")
            broker.wait_for(record_produced("orders", count=count))
    assert code.result() == 0
    assert len({each.peer for each in broker.requests.of("Produce")}) == 2


def test_without_a_record_no_topic_is_created(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    words = ["produce", "paymets", "-l", str(tmp_path / "empty"), "-b", broker.bootstrap_servers]
    assert cli.main(words) == 0
    with ClusterClient(parse_address(broker.bootstrap_servers)) as cluster:
        assert cluster.topic_names() == ["orders"]


@pytest.mark.parametrize(
    ("delimiter", "pieces", "records"),
    [
        (b"\n", [b"a\nb", b"c\n", b"\nd"], [[b"a"], [b"bc"], [b""], [b"d"]]),
        (b"--", [b"a-", b"-b", b"--"], [[], [b"a"], [b"b"]]),
        (b"\n", [b"a\nb\n"], [[b"a", b"b"]]),
    ],
)
def test_a_record_may_arrive_in_pieces(
    delimiter: bytes, pieces: list[bytes], records: list[list[bytes]]
) -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as given:
        reader = RecordReader(given, delimiter)
        assert reader.read(0.0) == []
        found = []
        for piece in pieces:
            os.write(write_end, piece)
            found.append(reader.read(0.0))
        os.close(write_end)
        last = reader.read(None)
        assert [*found, *([] if last is None else [last])] == records
        assert reader.read(None) is None


def test_what_is_no_file_is_read_to_its_end() -> None:
    reader = RecordReader(io.BufferedReader(io.BytesIO(b"a\nb")), b"\n")  # type: ignore[arg-type]
    assert [reader.read(1.0), reader.read(1.0), reader.read(1.0)] == [[b"a"], [b"b"], None]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"\xef\xbb\xbfa\r\nb\n", [b"a", b"b"]),
        ("ä\r\nb".encode("utf-16"), ["ä".encode(), b"b"]),
        ("ä\nb\n".encode("utf-32"), ["ä".encode(), b"b"]),
        (b"\xfe\xff" + "ä\n".encode("utf-16-be"), ["ä".encode()]),
        (b"a\r\n\r\nb\r", [b"a", b"", b"b"]),
        (b"\xef\xbb", [b"\xef\xbb"]),
        (b"\xff\n\0\n", [b"\xff", b"\0"]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_text_is_read_without_its_mark_and_with_any_end_of_line(
    data: bytes, lines: list[bytes], size: int
) -> None:
    class Pieces(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return self.read(size)

    reader, found = RecordReader(Pieces(data), None), []  # type: ignore[arg-type]
    while (each := reader.read(None)) is not None:
        found += each
    assert found == lines


def test_with_a_delimiter_records_are_the_bytes_between() -> None:
    reader = RecordReader(io.BufferedReader(io.BytesIO(b"\xef\xbb\xbfa\r\nb")), b"\n")  # type: ignore[arg-type]
    assert reader.read(None) == [b"\xef\xbb\xbfa\r"]


def test_text_that_is_cut_is_refused_with_its_name() -> None:
    reader = RecordReader(io.BufferedReader(io.BytesIO(b"\xff\xfea\0b")), None, "lines")  # type: ignore[arg-type]
    assert reader.read(None) == []
    with pytest.raises(ConfigError, match="lines: not UTF-16-LE: 0x62"):
        reader.read(None)


def test_command_lines_of_kcat_do_the_same(
    broker: Broker, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines, config = tmp_path / "lines", tmp_path / "kcat.conf"
    lines.write_bytes(b"k1:a\nk2:b\nk3:c\n")
    config.write_text(f"metadata.broker.list={broker.bootstrap_servers}\n")
    where = ["-t", "orders", "-m", "20", "-F", str(config)]
    words = ["produce", "-P", *where, "-T", "-c", "2", "-K", ":", "-p", "0", "-q", "-l", str(lines)]
    assert cli.main(words) == 0
    assert capfdbinary.readouterr().out == b"a\nb\n"
    words = ["consume", "-C", *where, "-u", "-E", "-e", "-o", "beginning", "-K", "=", "-D", ";%\\n"]
    assert cli.main(words) == 0
    assert capfdbinary.readouterr().out == b"k1=a;%\nk2=b;%\n"
    assert cli.main(["produce", *where, "-T", "--json", "-l", str(lines)]) == cli.CANNOT
