"""The numbers are those of Kafka for the same story; they are found by its names, in Python and by Prometheus."""

import asyncio
import math
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker, ConfigError, cli
from kafka_offsets.broker.core import metrics
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network import prometheus
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupState
from kafka_offsets.installation import install_command
from kafka_offsets.protocol import messages
from tests.broker.groups.expiry_story import SETTINGS, Story
from tests.broker.groups.test_expiry import QUICK, after, expired, fill, until
from tests.conftest import REPOSITORY, GeneratedPart
from tests.drivers.core import CoreClient, make_core

METERS = ("offset-commit", "offset-expiration", "offset-deletion", "group-completed-rebalance")


def counts(core: BrokerCore) -> dict[str, float]:
    read = core.metrics.read()
    return {name: read[f"{name}-count"] for name in METERS}


def test_the_story_of_expiry_is_counted_as_in_kafka() -> None:
    """Kafka 4.3.1 showed these numbers through JMX, but for expirations, some of which it counts more than once."""
    core = make_core(**{key.replace(".", "_"): value for key, value in SETTINGS.items()})
    began = core.clock.now().mono_ms
    Story(lambda: CoreClient(core), lambda ms: until(core, began + ms)).tell()
    assert counts(core) == {
        "offset-commit": 33,
        "offset-expiration": 16,
        "offset-deletion": 0,
        "group-completed-rebalance": 11,
    }
    read = core.metrics.read()
    assert read["NumOffsets"] == 33 - 1 - 16 - 5, "one was committed again, five were of a deleted topic"
    assert read["num-partitions{state=active}"] == 4


def test_deletions_are_those_of_offset_delete() -> None:
    core = make_core()
    client = fill(core, 2, 4)
    request = messages.OffsetDeleteRequest
    partitions = [request.Partition(index) for index in (0, 1, 9)]
    client.call(request("g-0", [request.Topic("t", partitions)]), 0)
    client.call(messages.DeleteGroupsRequest(["g-1"]), 2)
    assert counts(core)["offset-deletion"] == 2
    assert core.metrics.read()["NumOffsets"] == 2


def test_a_rate_is_that_of_the_last_windows() -> None:
    core = make_core()
    client = fill(core, 1, 30)

    def rate() -> float:
        return core.metrics.read()["offset-commit-rate"]

    assert rate() == pytest.approx(30 / 30)
    after(core, 15_000)
    assert rate() == pytest.approx(30 / 45)
    after(core, 15_000)
    client.commit("g-0", {("t", index): 2 for index in range(15)})
    assert rate() == pytest.approx(45 / 30)
    after(core, 30_000)
    assert rate() == pytest.approx(15 / 30)
    after(core, 60_000)
    assert rate() == 0
    assert counts(core)["offset-commit"] == 45


def test_groups_are_counted_by_their_state() -> None:
    core = make_core()
    fill(core, 3, 1)
    hosted = core.runtime.shard_of("g-0", core.clock.now())
    kept = hosted.shard.groups.keep("g-0")
    assert isinstance(kept, ClassicGroup)
    kept.state = ClassicGroupState.STABLE
    read = core.metrics.read()
    assert read["NumGroups"] == read["group-count{protocol=classic}"] == 3
    assert (read["NumGroupsEmpty"], read["NumGroupsStable"], read["NumGroupsDead"]) == (2, 1, 0)


def test_consumer_groups_are_counted_by_their_state_and_their_rebalances() -> None:
    core = make_core()
    core.topics.create("t", 2)
    client, request = CoreClient(core), messages.ConsumerGroupHeartbeatRequest

    def beat(group: str, member: str, epoch: int, **fields: Any) -> None:
        assert client.call(request(group, member, epoch, **fields), 1).error_code == 0

    joins = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    for group in ("stable", "reconciling", "empty"):
        beat(group, "a", 0, **joins)
    beat("reconciling", "b", 0, **joins)
    beat("empty", "a", -1)
    read = core.metrics.read()
    counted = {
        key: int(value) for key, value in read.items() if key.startswith("consumer-group-count") and value
    }
    assert counted == {
        f"consumer-group-count{{state={state}}}": 1 for state in ("empty", "reconciling", "stable")
    }
    assert (read["group-count{protocol=consumer}"], read["group-count{protocol=classic}"]) == (3, 0)
    assert read["consumer-group-rebalance-count"] == 4, "as in Kafka, not those of members that leave"


def test_many_groups_are_counted_in_steps_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_COUNTED_AT_ONCE", 2)
    monkeypatch.setattr(metrics, "_GROUPS_PER_STEP", 1)
    core = make_core(**(QUICK | {"offsets_retention_minutes": 100}))
    fill(core, 5, 1)
    assert core.metrics.read()["NumGroups"] == 0
    after(core, 61_000)
    assert core.metrics.read()["NumGroups"] == 5


def test_a_new_broker_has_every_number() -> None:
    read = make_core().metrics.read()
    assert list(read) == [metric.key for metric in metrics.TABLE]
    assert {key for key, value in read.items() if value} == {
        "partition-load-time-avg",
        "partition-load-time-max",
    }
    assert math.isnan(read["partition-load-time-max"])


def test_a_broker_in_a_thread_expires_and_is_read() -> None:
    with Broker() as broker:
        assert broker.expire_offsets() == 0
        broker.create_topic("t")
        assert broker.metrics()["offset-commit-count"] == 0
    with pytest.raises(RuntimeError):
        broker.metrics()
    with pytest.raises(RuntimeError):
        broker.expire_offsets()


def test_a_broker_in_the_callers_loop_is_not_waited_for_in_that_loop() -> None:
    async def use() -> int:
        async with Broker() as broker:
            with pytest.raises(RuntimeError, match="to_thread"):
                broker.expire_offsets()
            return await asyncio.to_thread(broker.expire_offsets)

    assert asyncio.run(use()) == 0


def test_expiring_now_is_the_round_of_the_schedule() -> None:
    core = make_core(**QUICK)
    fill(core, 2, 3)
    after(core, 59_000)
    assert (expired(core), counts(core)["offset-expiration"]) == (0, 0)
    after(core, 1_000)
    assert counts(core)["offset-expiration"] == 6


# -- Prometheus


def test_the_page_lists_every_number(generated: GeneratedPart) -> None:
    rows = ["| name | Kafka's bean | in Prometheus | meaning |", "|---|---|---|---|"]
    for metric in metrics.TABLE:
        label = f'{{{metric.tag[0]}="{metric.tag[1]}"}}' if metric.tag else ""
        rows.append(
            f"| `{metric.key}` | `{metric.bean}` | `{metric.prometheus_name}{label}` | {metric.meaning} |"
        )
    generated.check("docs/metrics.md", "metrics", "\n".join(rows))


def test_prometheus_finds_the_numbers(tmp_path: Path) -> None:
    serve = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0", "--metrics-port", "0"]
    process = subprocess.Popen(
        [*serve, "--data-dir", str(tmp_path)], cwd=REPOSITORY, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline() + process.stderr.readline()
        found = re.search(r"metrics on (http://127\.0\.0\.1:\d+/metrics)\n", said)
        assert found is not None and "listening on 127.0.0.1:" in said, said
        with urllib.request.urlopen(found[1], timeout=20) as answer:
            text = answer.read().decode()
    finally:
        process.terminate()
        with process:
            rest = process.stderr.read()  # `communicate` does not see what this file has buffered
    assert (process.returncode, rest) == (0, "")
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    expected = set()
    for metric in metrics.TABLE:
        label = f'{{{metric.tag[0]}="{metric.tag[1]}"}}' if metric.tag else ""
        expected.add(f"{metric.prometheus_name}{label}")
    assert lines.keys() == expected
    assert lines["kafka_server_group_coordinator_metrics_offset_commit_count"] == "0.0"
    assert "# TYPE kafka_server_group_coordinator_metrics_offset_commit_count untyped" in text


@contextmanager
def half_open_requests(count: int, request_seconds: float) -> Iterator[tuple[str, list[socket.socket]]]:
    """Give the URL of an endpoint and connections to it, each with a part of a request."""
    values = dict.fromkeys((metric.key for metric in metrics.TABLE), 1.0)
    endpoint = prometheus.Endpoint("127.0.0.1", 0, lambda: values, request_seconds)
    with ExitStack() as stack:
        stack.callback(endpoint.close)
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", endpoint.port), 20))
            connections.append(connection)
            with suppress(OSError):  # it may be closed already
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        yield f"http://127.0.0.1:{endpoint.port}/metrics", connections


@pytest.mark.slow
def test_half_open_requests_are_bounded_in_number() -> None:
    # Each took a thread for ever.
    others = set(threading.enumerate())
    with half_open_requests(40, request_seconds=3600) as (_, connections):
        assert all(_is_closed(connection) for connection in connections[16:])
        started = set(threading.enumerate()) - others
        # Threads of other tests in this process may start meanwhile.
        serving = [
            thread
            for thread in started
            if re.search(r"\((serve_forever|process_request_thread)\)", thread.name)
        ]
        assert 0 < len(serving) <= 17


@pytest.mark.slow
def test_half_open_requests_are_bounded_in_time() -> None:
    with half_open_requests(16, request_seconds=1) as (url, connections):
        assert all(_is_closed(connection) for connection in connections)
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert answer.status == 200


def _is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_metrics_that_cannot_be_read_are_logged_and_answered(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def read() -> dict[str, float]:
        raise TimeoutError("the broker is busy")

    endpoint = prometheus.Endpoint("127.0.0.1", 0, read)
    try:
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=20)
        refused.value.close()  # Python 3.14 warns when this is left to the garbage collector
    finally:
        endpoint.close()
    assert "the metrics cannot be read" in caplog.text
    assert capsys.readouterr().err == ""


def test_without_prometheus_client_the_port_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prometheus, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="prometheus"):
        prometheus.check_installed()
    assert cli.main(["serve", "--port", "0", "--metrics-port", "0"]) == cli.CANNOT
    line = f"kafka-offsets: --metrics-port needs prometheus-client: {install_command('prometheus')}\n"
    assert capsys.readouterr().err == line


def test_prometheus_client_is_imported_for_its_port_alone() -> None:
    code = "import sys, kafka_offsets.broker.network.server; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0
