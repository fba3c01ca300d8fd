"""`kafka-offsets spark …`, each command once, on a log that Apache Kafka wrote."""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_offsets import cli
from kafka_offsets.client.connection import parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.testing import Broker
from tests.conftest import DATA, REPOSITORY
from tests.drivers.secured import PASSWORD, USER, Secured, write_properties
from tests.interop.waiting import until
from tests.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

LOG = DATA / "logs" / "classic"
PARTITIONS = 4
MAGIC_AT = 16
"""Where a batch says its format; what is there is no other than 2."""


def committed_offsets() -> dict[str, dict[tuple[str, int], int]]:
    """What Kafka's Admin client said of each group, just before the broker stopped."""
    answers = json.loads((LOG / "expected.json").read_text())["listConsumerGroupOffsets"]
    places = {name: tuple(name.rsplit("-", 1)) for offsets in answers.values() for name in offsets}
    return {
        group: {(places[name][0], int(places[name][1])): answer["offset"] for name, answer in offsets.items()}
        for group, offsets in answers.items()
        if offsets
    }


def by_group(rows: Iterable[Any]) -> dict[str, dict[tuple[str, int], int]]:
    """The offsets of a state in the same shape."""
    found: dict[str, dict[tuple[str, int], int]] = {}
    for row in rows:
        found.setdefault(row["group"], {})[row["topic"], row["partition"]] = row["committed_offset"]
    return found


class Command:
    """The command line, in the session of the tests."""

    def __init__(self, spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> None:
        self._spark, self._capsys = spark, capsys

    def code(self, *words: object) -> int:
        """Run a command; return its exit code."""
        from kafka_offsets.commands import spark as command

        parser = argparse.ArgumentParser(prog="kafka-offsets spark")
        command.add_actions(parser)
        return command.run(parser.parse_args([str(word) for word in words]), self._spark)

    def __call__(self, *words: object) -> list[str]:
        """Run a command; return the lines it prints."""
        assert self.code(*words) == 0
        return self._capsys.readouterr().out.splitlines()

    def rows(self, *words: object) -> list[dict[str, Any]]:
        """Run a command; return the rows that it prints as JSON."""
        return [json.loads(line) for line in self(*words, "--json")]


@pytest.fixture
def spark_command(spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(spark, capsys)


@pytest.mark.parametrize("log", ["/nonexistent", "file:///nonexistent", "/nonexistent/*"])
def test_a_log_that_does_not_exist_is_reported_before_a_jvm_starts(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kafka_offsets.commands import spark as command

    def no_session(options: argparse.Namespace) -> None:
        pytest.fail("a JVM would be started")

    monkeypatch.setattr(command, "_session", no_session)
    assert cli.main(["spark", "latest", log]) == 2
    assert f"{log}: no segments of __consumer_offsets there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["latest", "/nonexistent", "--parquet"], "/nonexistent: no such file or directory"),
        (["latest", LOG, "--snapshot", "/nonexistent"], "/nonexistent: no such snapshot"),
        (["latest", LOG, "--output", "/tmp"], "/tmp: already exists"),
        (["write-segments", LOG, "/tmp"], "/tmp: already exists"),
        (
            ["report", LOG, "--output", "/nonexistent/page.html"],
            "/nonexistent/page.html: not a file in an existing directory",
        ),
    ],
)
def test_other_paths_are_checked_before_a_jvm_starts(
    words: list[object], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kafka_offsets.commands import spark as command

    monkeypatch.setattr(command, "_session", lambda options: pytest.fail("a JVM would be started"))
    assert cli.main(["spark", *map(str, words)]) == 2
    assert said in capsys.readouterr().err


def test_state_and_merged_state_are_what_kafka_said(
    spark_command: Command, spark: "SparkSession", tmp_path: Path
) -> None:
    from kafka_offsets.spark.pipelines import read_state

    expected = committed_offsets()
    assert by_group(spark_command.rows("latest", LOG)) == expected
    (said,) = spark_command("merge-state", LOG, "--state", tmp_path / "state")
    assert "version 1" in said
    (done,) = spark_command.rows("merge-state", LOG, "--state", tmp_path / "state")
    text = f"version {done['version']}, {done['rows']} rows and {done['changes']} changes in {done['parts']} parts"
    assert said == f"{done['path']}: {text}"
    assert by_group(read_state(spark, str(tmp_path / "state")).collect()) == expected


def test_a_log_is_rewritten_and_a_broker_opens_it(spark_command: Command, tmp_path: Path) -> None:
    (said,) = spark_command("write-segments", LOG, tmp_path / "logs", "--partitions", PARTITIONS)
    assert f"of {PARTITIONS} partitions" in said
    (done,) = spark_command.rows("write-segments", LOG, tmp_path / "again", "--partitions", PARTITIONS)
    text = f"{done['records']} records, {done['bytes']} bytes in {done['segments']} segments"
    assert text in said and done["path"] == str(tmp_path / "again")
    with Broker(data_directory=tmp_path / "logs") as kafka:
        address = parse_address(kafka.bootstrap_servers)
        for group, offsets in committed_offsets().items():
            with Coordinator(address, group) as coordinator:
                found = coordinator.committed().items()
            assert {place: entry.offset for place, entry in found} == offsets


def test_history_and_expiry_cover_all_groups(spark_command: Command, tmp_path: Path) -> None:
    groups = set(committed_offsets())
    activity = spark_command.rows("activity", LOG, "--window", "1 day")
    assert groups <= {row["group"] for row in activity}
    audit = spark_command.rows("audit", LOG)
    assert {row["table"] for row in audit} >= {"groups", "partitions"}
    printed = spark_command("audit", LOG)
    assert "# problems: none" in printed
    heading, row = printed[printed.index("# groups") + 1 :][:2]
    assert heading.startswith("LOG-PARTITION  GROUP ") and "RECORDS-PER-KEY" in heading
    at = heading.index("RECORDS")  # below it is a number
    assert row[at - 2 : at] == "  " and row[at].isdigit()
    stale = spark_command(
        "stale", LOG, "--at", "2999-01-01T00:00:00", "--output", tmp_path / "stale", "--format", "csv"
    )
    assert stale == [] and list((tmp_path / "stale").glob("*.csv"))


def test_lag_and_report_ask_the_cluster_whose_log_is_read_over_tls(
    spark_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secured = Secured(tmp_path)
    with Broker(secured.config("SASL_SSL"), users={USER: PASSWORD}) as kafka:
        properties = secured.java(kafka.bootstrap_servers, "SASL_SSL", "SCRAM-SHA-256")
        del properties["bootstrap.servers"]
        config = write_properties(tmp_path / "client.properties", properties)
        kafka.create_topic("orders")
        kafka.produce("orders", ["first", "second"])
        kafka.commit("billing", {("orders", 0): 1})
        servers = kafka.bootstrap_servers
        cluster = (servers, "--cluster", "--command-config", config)
        (row,) = spark_command.rows("lag", *cluster)
        words = ("report", *cluster, "--output", tmp_path / "page.html", "--at", "2999-01-01T00:00:00")
        (done,) = spark_command.rows(*words)
        with pytest.raises(KafkaOffsetsError, match=r"client properties: security\.protocol is SASL_TLS"):
            spark_command(*words, "-X", "security.protocol=SASL_TLS")
    assert capsys.readouterr().err == ""
    assert (row["group"], row["lag"], row["status"]) == ("billing", 1, "behind") and row["time_lag_ms"] >= 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert done == {"path": str(tmp_path / "page.html"), "bytes": len(page.encode())}
    text = re.sub(r"<[^>]*>", " ", page.partition("</header>")[2])
    assert re.findall(r"lag of all groups +1 +groups that lag +1 of 1 +longest wait", " ".join(text.split()))
    assert page.count("<svg") == 3 and "No group has rebalanced." in page and "http-equiv" not in page
    assert "src=" not in page and "<link" not in page and "<script" not in page


def test_lag_is_printed_by_group_and_names_offsets_after_the_log_end(
    spark_command: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Broker(data_directory=tmp_path / "data") as kafka:
        kafka.create_topic("orders", 2)
        kafka.produce("orders", [b"x"] * 1500, partition=0)
        kafka.commit("audit", {("orders", 0): 1499, ("orders", 1): 7})
        kafka.commit("billing", {("orders", 0): 10})
        words = ["lag", str(tmp_path / "data"), "--ends", kafka.bootstrap_servers, "--no-times"]
        assert spark_command.code(*words) == 0
        printed = capsys.readouterr()
        assert spark_command.code(*words, "--limit", 1) == 0
        limited = capsys.readouterr()
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[:3] == [
        ["LAG", "GROUP", "BEHIND-SINCE", "FOR", "PARTITIONS"],
        ["1,490", "billing", "-", "-", "1", "of", "1", "lag"],
        ["1", "audit", "-", "-", "1", "of", "2", "lag,", "1", "after", "the", "log", "end"],
    ]
    assert [line[:2] + line[4:6] for line in lines[5:]] == [
        ["1,490", "billing", "orders", "0"],
        ["1", "audit", "orders", "0"],
        ["0", "audit", "orders", "1"],
    ]
    beyond = "1 committed offsets are after the log end, such as 7 of group audit at orders-1"
    assert beyond in printed.err and "are printed" not in printed.err
    assert limited.out.splitlines() == printed.out.splitlines()[:2] + printed.out.splitlines()[3:6]
    assert "the largest 1 of 2 groups and of 3 partitions are printed" in limited.err
    assert beyond in limited.err


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """Returns a function that runs a command without Spark, and returns the rows that it prints as JSON."""
    from kafka_offsets.commands import spark as command

    monkeypatch.setattr(command, "_session", lambda options: pytest.fail("a JVM would be started"))

    def run(*words: object) -> list[Any]:
        assert cli.main(["spark", *map(str, words), "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_with_and_without_spark_the_state_and_the_lag_are_the_same(
    spark_command: Command,
    alone: Callable[..., list[Any]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name in ("classic", "txn", "compact-after", "codec-zstd"):
        words = ("latest", DATA / "logs" / name, "--keep-tombstones")
        found = alone(*words)
        assert found and sorted(found, key=str) == sorted(spark_command.rows(*words), key=str)
    with Broker(data_directory=tmp_path / "data") as first, Broker() as kafka:
        for each in (first, kafka):
            each.create_topic("orders", 3)
        first.create_topic("gone")
        first.commit("audit", {("orders", 0): 1499, ("orders", 1): 2, ("orders", 2): 7, ("gone", 0): 3})
        first.commit("billing", {("orders", 0): 10, ("orders", 1): 20})
        first.commit("late", {("orders", 0): 1500})
        kafka.produce("orders", [b"x"] * 1500, partition=0)
        kafka.produce("orders", [b"x"] * 20, partition=1)
        words = ("lag", tmp_path / "data", "--ends", kafka.bootstrap_servers)
        for more in ([], ["--no-times"]):
            pair = alone(*words, *more), spark_command.rows(*words, *more)
            assert pair[0] and [list(row) for row in pair[0]] == [list(row) for row in pair[1]]
            for row in (*pair[0], *pair[1]):
                if row.get("time_lag_ms"):
                    row["time_lag_ms"] = "until a moment that is not the same"
            assert pair[0] == pair[1]
        assert {row["status"] for row in pair[0]} == {"current", "behind", "uncommitted", "ahead", "gone"}
        assert cli.main(["spark", *map(str, words), "--no-times"]) == 0
        printed = capsys.readouterr()
        assert spark_command.code(*words, "--no-times") == 0
        assert capsys.readouterr() == printed


def test_a_lag_is_counted_from_the_committed_offset_or_the_log_start() -> None:
    from kafka_offsets.spark import state_table

    ends = {10: (0, 10), 4: (0, 10), 2: (6, 10), 99: (0, 10), -1: (0, 10), 1: None}
    found = {offset: state_table._lag({"committed_offset": offset}, each) for offset, each in ends.items()}
    assert {
        offset: (row["status"], row["lag"], row["skipped"], row["position"]) for offset, row in found.items()
    } == {
        10: ("current", 0, 0, 10),
        4: ("behind", 6, 0, 4),
        2: ("truncated", 4, 4, 6),
        99: ("ahead", 0, 0, 99),
        -1: ("truncated", 10, 0, 0),
        1: ("gone", None, None, None),
    }


def test_a_command_without_spark_refuses_or_skips_what_cannot_be_read(
    alone: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copytree(LOG, tmp_path / "log")
    segment = tmp_path / "log" / "__consumer_offsets-1" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[MAGIC_AT] = 9
    segment.write_bytes(data)
    assert cli.main(["spark", "latest", str(tmp_path / "log")]) == 2
    printed = capsys.readouterr()
    assert "a record of the offsets log cannot be read: partition 1" in printed.err and printed.out == ""
    assert alone("latest", tmp_path / "log", "--skip-unreadable")


@pytest.mark.parametrize(
    "words", [["--output", "x"], ["--master", "local"], ["--conf", "a=b"], ["--storage-options", "{}"]]
)
def test_options_for_spark_start_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from kafka_offsets.commands import spark as command

    def ask(options: argparse.Namespace) -> None:
        raise KafkaOffsetsError("a session is asked for")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "_session", ask)
    parser = argparse.ArgumentParser()
    command.add_actions(parser)
    options = parser.parse_args(["latest", str(LOG), *words])
    with pytest.raises(KafkaOffsetsError, match="a session is asked for"):
        command.run(options)


def test_the_tasks_of_all_jobs_of_a_command_are_counted(
    spark_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_offsets.commands import spark as command

    shown: list[tuple[str, str, int, int]] = []

    @contextmanager
    def noted(what: str, total: Callable[[], int], done: Callable[[], int], *, unit: str) -> Iterator[None]:
        assert total() == 0
        yield
        until(lambda: 0 < total() == done(), "the events of all tasks have come")  # in a thread of Spark
        shown.append((what, unit, total(), done()))

    monkeypatch.setattr(command, "progress", noted)
    spark_command("audit", LOG)
    ((what, unit, total, done),) = shown
    assert (what, unit) == ("spark audit", "tasks") and total == done > 0


def test_times_are_in_utc_wherever_the_command_runs(
    spark: "SparkSession", capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime(2026, 7, 1, 12, 30, 0, 5_000, UTC)
    from kafka_offsets.commands import spark as command
    from kafka_offsets.spark import report

    rows = spark.createDataFrame([(at,)], "at TIMESTAMP")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        for given in ({"json": True}, {"json": False}):
            command._give(rows, argparse.Namespace(output=None, **given))
        cell = report._cell("at", rows.collect()[0]["at"])
    finally:
        monkeypatch.undo()
        time.tzset()
    said = capsys.readouterr().out.splitlines()
    assert said == ['{"at": "2026-07-01T12:30:00.005Z"}', "AT", "2026-07-01T12:30:00.005Z"]
    assert cell == "<td>2026-07-01 12:30:00</td>"


def test_spark_submit_runs_a_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    jvm.need_spark()
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    submit = [Path(pyspark.origin).parent / "bin" / "spark-submit", "--master", "local[1]"]
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    environment = (
        os.environ | jvm.ENVIRONMENT | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    )
    done = subprocess.run(
        [*submit, *options, REPOSITORY / "pyspark_kafka_offsets" / "submit.py", "latest", LOG, "--json"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert by_group(map(json.loads, done.stdout.splitlines())) == committed_offsets()


def test_what_cannot_be_done_is_reported_in_one_line(
    spark_command: Command, spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kafka_offsets.commands.spark import SparkCommandError

    with pytest.raises(SparkCommandError, match="no segments of __consumer_offsets there") as caught:
        spark_command("latest", tmp_path)
    assert "\n" not in str(caught.value)
    folder = tmp_path / "damaged" / "__consumer_offsets-1"
    shutil.copytree(LOG / folder.name, folder)
    segment = folder / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[MAGIC_AT] = 9
    segment.write_bytes(data)
    with pytest.raises(SparkCommandError, match=r"cannot be read: partition 1: .* at byte 0: ") as caught:
        spark_command("latest", folder.parent)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == "", "a header without rows"
    assert spark_command("latest", folder.parent, "--skip-unreadable")
    data[MAGIC_AT], data[-20] = 2, data[-20] ^ 1
    segment.write_bytes(data)
    assert any(row["table"] == "problems" for row in spark_command.rows("audit", folder.parent)), "checksums"
    with pytest.raises(SparkCommandError, match="lag needs --ends HOST:PORT"):
        spark_command("lag", LOG)
    with pytest.raises(SystemExit):
        cli.main(["spark", "lag", str(LOG), "--ends", "nowhere"])
    assert "nowhere is not HOST:PORT" in capsys.readouterr().err
