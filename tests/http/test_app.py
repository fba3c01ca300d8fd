"""Requests and answers: brokers, records, offsets, faults, time, snapshots, events, and what is refused."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from kafka_offsets import testing
from kafka_offsets.client.commits import VERSION, request
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.security import ClientSecurity, Login
from kafka_offsets.errors import RefusedError
from kafka_offsets.http import app, control
from kafka_offsets.http.control import Control
from kafka_offsets.http.server import Address, HttpServer
from kafka_offsets.protocol.messages import MetadataRequest
from kafka_offsets.security.credential import Secret
from kafka_offsets.testing import Broker
from kafka_offsets.testing.server.inspected import InspectedServer
from tests.http.conftest import Client, OneBroker, Serving
from tests.interop.waiting import until

Start = Callable[..., OneBroker]


def commit_as_client(broker: OneBroker, offset: int, group: str = "billing") -> int:
    """Commit an offset of orders-0 over a socket; return the error code."""
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    with Connection(host, int(port)) as connection:
        answer = connection.call(request(group, {("orders", 0): offset}, {}), VERSION)
    return int(answer.topics[0].partitions[0].error_code)


# -- brokers


def test_each_test_has_a_broker_of_its_own(client: Client, start: Start) -> None:
    one, two = start(), start(config={"num.partitions": 3})
    one.post("produce", topic="orders", records=["a"])
    two.post("produce", topic="orders", records=["b"])
    assert [each["value"] for each in one.get("consume_all?topic=orders")] == ["a"]
    assert len(two.get("overview")["partitions"]["orders"]) == 3
    ids = {each["broker"] for each in client.get("/brokers").value}
    assert ids == {"main", one.id, two.id}
    assert client.get(one.path).value["bootstrap_servers"] == one.bootstrap_servers
    client.delete(one.path)
    answer = client.get(f"{one.path}/describe")
    assert (answer.status, answer.value["detail"]) == (404, f"there is no broker '{one.id}'")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(one.bootstrap_servers.rpartition(":")[2])))


def test_the_broker_of_the_process_cannot_be_deleted(client: Client) -> None:
    answer = client.delete("/brokers/main")
    assert (answer.status, answer.value["detail"]) == (409, "broker 'main' runs as long as its process")
    assert client.get("/brokers/main").status == 200


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"config": {"num.partition": 3}}, 400, "num.partition"),
        ({"config": {"log.dirs": "/tmp/x"}}, 400, "this broker is in memory"),
        ({"brokers": 0}, 400, "a cluster has between 1 and 100 brokers, not 0"),
        ({"port": 70000}, 400, "70000 is not a port number"),
        ({"topics": {"a": 1, "b": 0}}, 400, "topic 'b'"),
        ({"manualclock": True}, 400, "there is no parameter 'manualclock'; did you mean manual_clock?"),
    ],
)
def test_a_broker_that_cannot_be_started(client: Client, given: Any, status: int, said: str) -> None:
    answer = client.post("/brokers", **given)
    assert (answer.status, said in answer.value["detail"]) == (status, True), answer.value
    assert len(client.get("/brokers").value) == 1


def test_there_is_a_limit_of_brokers(client: Client, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_offsets.http.control.MAX_BROKERS", 2)
    oldest = start()
    answer = client.post("/brokers")
    assert (answer.status, answer.value["detail"]) == (
        409,
        f"2 brokers are running: delete one; the oldest is '{oldest.id}'",
    )


def test_a_broker_starts_with_its_topics(start: Start) -> None:
    compacted = {"partitions": 1, "config": {"cleanup.policy": "compact"}}
    ends = start(topics={"orders": 3, "payments": compacted}).get("overview")["partitions"]
    assert {topic: len(partitions) for topic, partitions in ends.items()} == {"orders": 3, "payments": 1}


def test_a_broker_starts_with_its_users_and_says_where_its_listeners_are(client: Client) -> None:
    config = {"listeners": "INNER://:0,SASL_PLAINTEXT://:0"}
    config["listener.security.protocol.map"] = "INNER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    made = client.post("/brokers", users={"alice": "secret"}, config=config).value
    inner, secured = (parse_address(made["listeners"][name]) for name in ("INNER", "SASL_PLAINTEXT"))
    with Connection(*inner) as connection:
        connection.call(MetadataRequest([]), 4)
    for password in ("secret", "wrong"):
        security = ClientSecurity("SASL_PLAINTEXT", None, Login("PLAIN", "alice", Secret(password)))
        with contextlib.nullcontext() if password == "secret" else pytest.raises(RefusedError):
            Connection(*secured, security=security).close()
    client.delete(f"/brokers/{made['broker']}")


def test_a_broker_with_a_name_replaces_an_earlier_one(client: Client) -> None:
    ports = [client.post("/brokers?name=billing&field=bootstrap_servers").value for _ in range(2)]
    assert client.get("/brokers/billing?field=bootstrap_servers").value == ports[1] != ports[0]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(ports[0].rpartition(":")[2])))
    assert len(client.get("/brokers").value) == 2
    assert client.post("/brokers?name=billing&port=70000").status == 400  # the earlier one runs on
    assert client.get("/brokers/billing?field=bootstrap_servers").value == ports[1]
    client.delete("/brokers/billing")


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("main", 409, "broker 'main' runs as long as its process"),
        ("1", 400, "name: 1 is a number"),
        ("..", 400, "not '..'"),
        ("a%0Ab", 400, r"not 'a\nb'"),
    ],
)
def test_a_name_that_a_broker_cannot_have(client: Client, name: str, status: int, said: str) -> None:
    answer = client.post(f"/brokers?name={name}")
    assert (answer.status, said in answer.value["detail"]) == (status, True), answer.value


@pytest.mark.parametrize(
    "name", ["TestOrders/an_order_#01", "test [1] a=é, b=100%", "test_it[a/b-%2F]", "a?b&c", "1/2", "日本"]
)
def test_a_name_that_a_test_framework_gives(client: Client, name: str) -> None:
    made = client.post("/brokers", name=name).value
    path = f"/brokers/{quote(name, safe='')}"
    assert client.get(path).value == made and made["broker"] == name
    assert client.post(f"{path}/produce", topic="orders", records=["a"]).value == {"orders": {"0": 1}}
    assert client.get(f"{path}/prometheus").status == 200
    assert client.delete(path).status == 204
    assert client.get(path).value["detail"] == f"there is no broker {name!r}"


def test_brokers_are_deleted_by_prefix_or_all_at_once() -> None:
    with Serving() as client:
        for name in ("orders/1", "orders/2", "payments/1"):
            client.post("/brokers", name=name)
        assert client.delete("/brokers?prefix=orders/").value == ["orders/1", "orders/2"]
        client.post("/brokers")
        assert client.delete("/brokers").value == ["payments/1", "1"]
        assert [each["broker"] for each in client.get("/brokers").value] == ["main"]
        assert client.delete("/brokers?prefix=main").value == []


@pytest.mark.parametrize("everything", [False, True])
def test_a_broker_that_does_not_stop_in_order_leaves_no_others_running(
    everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those after it had left the registry, and kept their ports.
    stopped: list[Broker] = []

    async def scenario() -> None:
        control = Control("127.0.0.1")
        for name in ("one", "two", "three"):
            await control.create(name=name)

        async def fail(broker: Broker, *error: object) -> None:
            await end(broker, *error)
            stopped.append(broker)
            raise OSError(f"the disk is full: {len(stopped)}")

        end = Broker.__aexit__
        monkeypatch.setattr(Broker, "__aexit__", fail)
        with pytest.raises(OSError, match="the disk is full: 1"):
            await (control.stop() if everything else control.delete_all())
        assert control.all() == []

    asyncio.run(scenario())
    assert len(stopped) == 3


def see_it_stop(host: str, port: int) -> None:
    """Return when a broker closes its connections; it may do so before there is one."""
    stopped = contextlib.suppress(ConnectionRefusedError, ConnectionResetError)
    with stopped, socket.create_connection((host, port), 60) as connection:
        assert connection.recv(1) == b""


def test_a_broker_lives_for_its_time(client: Client) -> None:
    host, _, port = (
        client.post("/brokers", name="short", ttl_seconds=0.5).value["bootstrap_servers"].partition(":")
    )
    see_it_stop(host, int(port))
    until(lambda: client.get("/brokers/short").status == 404, "it is gone")
    assert client.post("/brokers", ttl_seconds=0).status == 400


def test_a_broker_without_a_time_lives_for_an_hour_or_for_ever(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasting: list[float] = []
    monkeypatch.setattr(
        "kafka_offsets.http.control.Control._end_after", lambda self, broker, seconds: lasting.append(seconds)
    )
    client.post("/brokers")
    client.post("/brokers", ttl_seconds=None)
    assert lasting == [3600]


def test_the_time_of_a_broker_ends_with_it(client: Client) -> None:
    client.post("/brokers", name="short", ttl_seconds=0.2)
    later = client.post("/brokers", name="short").value  # another broker, without such a time
    host, _, port = client.post("/brokers", ttl_seconds=0.4).value["bootstrap_servers"].partition(":")
    see_it_stop(host, int(port))  # at 0.4 s
    assert client.get("/brokers/short").value == later
    client.delete("/brokers/short")


# -- parameters in the query, one field as the answer


def test_a_post_takes_its_parameters_in_the_query(broker: OneBroker) -> None:
    assert broker.post("produce?topic=orders&records=a&records=b") == {"orders": {"0": 2}}
    broker.post("commit?group=billing&offsets=orders:0:1")
    broker.post("assert_committed?group=billing&expected=orders:0:1")
    broker.post("assert_lag?group=billing&expected=1")
    assert broker.refused("assert_lag?group=billing&expected=0")[0] == 409
    assert broker.post("faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2")["apis"] == ["OffsetCommit"]
    said = "api in the query: with a body, all parameters are in it"
    assert broker.refused("faults/drop?api=Fetch", n=1)[2] == said
    broker.post("clock/advance?days=8")
    broker.post("assert_committed?group=billing&expected=orders:0:null")


def test_one_field_of_a_result_is_the_answer(broker: OneBroker, client: Client) -> None:
    answer = client.post(f"{broker.path}/faults/error?api=Fetch&error=16&field=fault")
    assert (answer.status, answer.headers.get_content_type(), answer.value) == (201, "text/plain", "1")
    assert client.post(f"{broker.path}/clock/run_until_idle?field=mono_ms").value == "0"
    refused = client.post(f"{broker.path}/faults/drop?api=Fetch&field=number")
    said = "the result has no field 'number'; its fields: fault, kind, apis, n, hits, is_active, text"
    assert (refused.status, refused.value["detail"]) == (400, said)
    assert len(broker.get("faults")) == 1  # what is refused is not executed


# -- records, offsets, lag


def test_records_offsets_and_lag(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders", partitions=2)
    ends = broker.post("produce", topic="orders", records=["a", {"value": {"id": 1}, "headers": {"h": "x"}}])
    assert ends == {"orders": {"0": 1, "1": 1}}
    assert broker.post("produce", topic="orders", partition=0, records=[{"value": {"base64": "/w=="}}])
    records = broker.get("consume_all?topic=orders")
    assert [(each["partition"], each["value"]) for each in records] == [
        (0, "a"),
        (0, {"base64": "/w=="}),
        (1, '{"id": 1}'),
    ]
    assert records[2]["headers"] == [["h", "x"]]
    assert broker.post("commit", group="billing", offsets={"orders": {"0": 1}}) == ""
    found = broker.get("committed?group=billing")["orders"]["0"]
    assert (found["offset"], found["metadata"], len(found["topic_id"])) == (1, "", 22)
    assert broker.get("lag?group=billing") == {"orders": {"0": 1, "1": 1}}
    assert broker.get("lag?group=billing&topics=orders&topics=other") == {"orders": {"0": 1, "1": 1}}
    broker.post("assert_lag", group="billing", expected=2)
    broker.post("assert_committed", group="billing", expected={"orders": {"0": 1, "1": None}}, only=True)
    assert broker.get("group?group=billing")["state"] == "Empty"
    assert "orders-0 committed 1, lag 1" in broker.get("describe")
    (progress,) = broker.get("overview")["groups"]
    assert (progress["view"]["group_id"], progress["lag"]) == ("billing", {"orders": {"0": 1, "1": 1}})
    assert broker.get("overview")["partitions"]["orders"]["0"] == {"log_start_offset": 0, "high_watermark": 2}


def test_a_failed_assertion_shows_what_differs(broker: OneBroker) -> None:
    broker.post("produce", topic="orders", records=["a"])
    broker.post("commit", group="billing", offsets={"orders": {"0": 0}})
    status, error, said = broker.refused("assert_committed", group="billing", expected={"orders": {"0": 1}})
    assert (status, error) == (409, "AssertionError")
    assert said.splitlines()[1].strip() == "orders-0: committed 0, expected 1 (1 fewer)"


def test_a_condition_that_is_not_met_is_a_conflict(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders")
    broker.post("commit", group="g", offsets={"orders": {"0": 4}}, expected={"orders": {"0": None}})
    status, error, _ = broker.refused(
        "commit", group="g", offsets={"orders": {"0": 9}}, expected={"orders": {"0": 5}}
    )
    assert (status, error) == (409, "CommitRefusedError")
    assert broker.get("committed?group=g")["orders"]["0"]["offset"] == 4


# -- faults


def test_a_fault_strikes_a_client_and_is_counted(broker: OneBroker, client: Client) -> None:
    broker.post("create_topic", name="orders")
    fault = broker.post("faults/error", api="OffsetCommit", error="NOT_COORDINATOR", n=2, group="billing")
    assert (fault["fault"], fault["hits"], fault["is_active"]) == (1, 0, True)
    assert commit_as_client(broker, 1, "other") == 0
    assert [commit_as_client(broker, 1) for _ in range(3)] == [16, 16, 0]
    found = broker.get("faults/1")
    assert (found["hits"], found["n"], found["is_active"], found["apis"]) == (2, 2, False, ["OffsetCommit"])
    assert broker.get("faults") == [found]
    assert broker.post("faults/1/wait", hits=2) == found
    (seen,) = broker.get("requests?api=OffsetCommit&error=NOT_COORDINATOR&decoded=true")["requests"][1:]
    assert seen["request"]["topics"][0]["partitions"][0]["committed_offset"] == 1
    assert (seen["client_id"], seen["groups"], seen["errors"]) == (
        "kafka-offsets",
        ["billing"],
        {"NOT_COORDINATOR": 1},
    )


def test_a_fault_ends_when_it_is_deleted(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders")
    for name, given in [("drop", {}), ("delay", {"ms": 5}), ("disk_full", {"path": "other-0/"})]:
        broker.post(f"faults/{name}", **given)
    one = broker.post("faults/error", api=["OffsetCommit", "OffsetFetch"], error=["NONE", 16])
    assert one["apis"] == ["OffsetCommit", "OffsetFetch"]
    broker.delete(f"faults/{one['fault']}")
    assert broker.get(f"faults/{one['fault']}")["is_active"] is False
    broker.delete("faults")
    assert [each["is_active"] for each in broker.get("faults")] == [False] * 4
    assert commit_as_client(broker, 1) == 0


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("faults/error", {"api": "OffsetComit", "error": 16}, "did you mean OffsetCommit?"),
        ("faults/error", {"api": "OffsetCommit"}, "error is missing"),
        (
            "faults/error",
            {"api": 3.5, "error": 16},
            "api: a text or a whole number or a list or null is expected",
        ),
        ("faults/error", {"api": "Fetch", "error": "NOT_AN_ERROR"}, "NOT_AN_ERROR"),
        ("faults/delay", {}, "ms is missing"),
        ("faults/drop", {"partition": 1}, "partition 1 of which topic?"),
        ("faults/drop", {"cleint_id": "a"}, "did you mean client_id?"),
        ("faults/drop", {"node": 7}, "there is no node 7"),
        ("clock/advance", {"ms": -1}, "time does not go back"),
        (
            "clock/advance",
            {"days": 1e300},
            "the wall clock shows 0 ms to 253402300799999 ms, the end of the year 9999",
        ),
        (
            "clock/set_wall",
            {"wall_ms": 1e18},
            "the wall clock shows 0 ms to 253402300799999 ms, the end of the year",
        ),
        ("faults/delay", {"api": "Fetch", "ms": 10**30}, "a delay is 1 to 253402300799999 ms"),
        ("produce", {"topic": "t", "records": "abc"}, "records: a list or an object is expected"),
        ("create_topic", {"name": ""}, "the empty string is not allowed"),
        ("commit", {"group": "g", "offsets": {"t": {"0": -1}}}, "the offset is -1"),
        ("assert_lag", {"group": "g", "expected": "0"}, "expected: a whole number or an object"),
        ("wait_for/committed", {"group": "g", "timeout": -1}, "timeout"),
        ("wait_for/committed", {"group": "g", "timeout": 10_000}, "timeout"),
        ("wait_for/committed", {"offsets": {}}, "group is missing"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_sentence(
    broker: OneBroker, path: str, given: Any, said: str
) -> None:
    status, _, found = broker.refused(path, **given)
    assert (status, said in found) == (400, True), found


def test_what_does_not_exist_is_not_found(broker: OneBroker, client: Client) -> None:
    broker.post("create_topic", name="orders")
    broker.post("commit", group="billing", offsets={"orders": {"0": 0}})
    for answer, said in [
        (client.get(f"{broker.path}/faults/7"), f"broker '{broker.id}' has no fault 7"),
        (client.delete("/snapshots/99"), "there is no snapshot '99'"),
        (
            client.get(f"{broker.path}/group?group=biling"),
            "group 'biling' does not exist; did you mean billing?",
        ),
        (
            client.post(f"{broker.path}/faults/eror", api="Fetch"),
            f"there is no POST {broker.path}/faults/eror; did you mean faults/error?",
        ),
        (
            client.get(f"{broker.path}/lags"),
            f"there is no GET {broker.path}/lags; did you mean lag?",
        ),
        (client.get("/nothing"), "there is no GET /nothing; GET /openapi.json lists the operations"),
    ]:
        assert (answer.status, answer.value["detail"]) == (404, said)
    answer = client.get(f"{broker.path}/produce")
    assert (answer.status, answer.value["title"]) == (405, "Method Not Allowed")
    assert answer.headers["Allow"] == "POST"


# -- time, snapshots, events


def test_time_passes_only_when_it_is_moved(broker: OneBroker, start: Start) -> None:
    broker.post("create_topic", name="orders")
    broker.post("commit", group="billing", offsets={"orders": {"0": 1}})
    before = broker.get("clock")
    after = broker.post("clock/advance", days=8)
    assert after["mono_ms"] - before["mono_ms"] == 8 * 24 * 3600 * 1000
    assert broker.get("clock") == {**after, "manual_clock": True}
    assert broker.get("committed?group=billing") == {}
    assert broker.post("clock/set_wall", wall_ms=5) == ""
    assert broker.post("clock/run_until_idle")["wall_ms"] == 5
    other = start()
    assert other.get("clock")["manual_clock"] is False
    status, error, said = other.refused("clock/advance", days=1)
    assert (status, error, "manual_clock" in said) == (409, "ConflictError", True)


def test_a_snapshot_is_restored_also_by_another_broker(
    broker: OneBroker, start: Start, client: Client
) -> None:
    broker.post("produce", topic="orders", records=["a"])
    shot = broker.post("snapshot")
    assert shot["broker"] == broker.id
    broker.post("produce", topic="orders", records=["b"])
    other = start()
    for each in (broker, other):
        each.post("restore", snapshot=shot["snapshot"])
        assert [one["value"] for one in each.get("consume_all?topic=orders")] == ["a"]
    assert shot in client.get("/snapshots").value
    assert client.delete(f"/snapshots/{shot['snapshot']}").status == 204
    status, _, said = broker.refused("restore", snapshot=shot["snapshot"])
    assert (status, said) == (404, f"there is no snapshot '{shot['snapshot']}'")


def test_there_is_a_limit_of_snapshots(
    broker: OneBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_offsets.http.control.MAX_SNAPSHOTS", 1)
    shot = broker.post("snapshot")
    assert broker.refused("snapshot")[0] == 409
    client.delete(f"/snapshots/{shot['snapshot']}")
    broker.post("snapshot")


def test_a_request_waits_for_an_event(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders")
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(
            broker.post("wait_for/committed", group="g", offsets={"orders": {"0": 5}}, timeout=600)
        )
    )
    waiting.start()
    broker.post("commit", group="g", offsets={"orders": {"0": 4}})
    broker.post("commit", group="g", offsets={"orders": {"0": 6}})
    waiting.join()
    assert found == [{"orders": {"0": 6}}]
    assert broker.post("wait_for/topic_created", topic="orders") == 1


def test_a_wait_that_ends_says_what_is_the_case(broker: OneBroker) -> None:
    status, error, said = broker.refused("wait_for/group_stable", group="billing", members=2, timeout=0.01)
    assert (status, error) == (504, "TimeoutError")
    assert said.startswith(
        "after 0.01 s, not yet: group 'billing' is stable with 2 members; now: group 'billing' does not exist"
    )


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released when a request has begun to wait."""
    begun = threading.Semaphore(0)
    watch = InspectedServer.watch
    monkeypatch.setattr(InspectedServer, "watch", lambda *given: (watch(*given), begun.release())[0])
    return begun


def test_waits_end_with_their_broker(
    start: Start, client: Client, begun: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start()
    fault = broker.post("faults/drop")["fault"]
    outcomes: list[tuple[int, str, str]] = []
    threads = [
        threading.Thread(
            target=lambda: outcomes.append(broker.refused("wait_for/committed", group="g", timeout=600))
        ),
        threading.Thread(target=lambda: outcomes.append(broker.refused(f"faults/{fault}/wait", timeout=600))),
    ]
    for each in threads:
        each.start()
        begun.acquire()
    monkeypatch.setattr(app, "MAX_WAITS", 2)
    assert broker.refused("wait_for/topic_created", topic="x") == (503, "", "2 requests wait already")
    client.delete(broker.path)
    for each in threads:
        each.join()
    assert sorted(outcomes) == [
        (
            409,
            "RuntimeError",
            "this broker was stopped while somebody waited: group 'g' has committed an offset",
        ),
        (504, "TimeoutError", "<fault drop: every API, struck 0 times, over>"),
    ]


def test_a_wait_ends_when_its_client_goes_away(
    broker: OneBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MAX_WAITS", 1)
    host, port = client.address.split(":")
    path, given = f"{broker.path}/wait_for/committed", b'{"group": "g", "timeout": 600}'
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(given)}"
    with socket.create_connection((host, int(port)), 30) as waiting:
        waiting.sendall(f"{head}\r\n\r\n".encode() + given)
        while client.post(path, group="g", timeout=0).status != 503:
            pass  # it does not wait yet
    while client.post(path, group="g", timeout=0).status == 503:
        pass  # the server has not seen the end yet
    assert client.post(path, group="g", timeout=0).status == 504


def test_a_refused_connection_is_a_hit_that_is_waited_for(
    broker: OneBroker, begun: threading.Semaphore
) -> None:
    fault = broker.post("faults/down")["fault"]
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(broker.post(f"faults/{fault}/wait", timeout=600)))
    waiting.start()
    begun.acquire()
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    with contextlib.suppress(ConnectionError):
        socket.create_connection((host, int(port)), 30).close()
    waiting.join(20)
    assert [each["hits"] for each in found] == [1]


# -- clusters


def test_a_cluster_of_brokers(start: Start) -> None:
    cluster = start(brokers=3)
    cluster.post("create_topic", name="orders", partitions=3)
    assert [node["is_up"] for node in cluster.get("nodes")] == [True] * 3
    assert len(cluster.bootstrap_servers.split(",")) == 3
    leader = cluster.get("leader?topic=orders&partition=1")
    cluster.post("kill", node=leader)
    moved = cluster.get("leader?topic=orders&partition=1")
    assert moved != leader and moved in (1, 2, 3)
    cluster.post("start_node", node=leader)
    cluster.post("partition", sides=[1, [2, 3]])
    cluster.post("heal")
    assert cluster.post("move_coordinator", group="billing") in (1, 2, 3)
    assert "node 1 " in cluster.get("describe")


def test_one_broker_is_no_cluster(broker: OneBroker) -> None:
    status, error, said = broker.refused("kill", node=1)
    assert (status, error) == (409, "ConflictError")
    assert (
        said
        == f"broker '{broker.id}' is alone: POST /brokers with {{\"brokers\": 3}} starts a cluster of three"
    )


# -- requests, metrics, health


def test_recorded_requests(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders")
    commit_as_client(broker, 1)
    first = broker.get("requests")
    assert [each["api"] for each in first["requests"]][-1] == "OffsetCommit"
    assert first["requests"][-1]["request"] is None
    commit_as_client(broker, 2)
    later = broker.get(f"requests?after={first['last_event']}&group=billing")["requests"]
    assert [each["topics"] for each in later] == [["orders"]]
    lines = [json.loads(line) for line in broker.get("capture").splitlines()]
    assert [line["dir"] for line in lines].count("request") == len(broker.get("requests")["requests"])
    last = broker.get("requests?last=1")["requests"]
    assert last == later[-1:] and len(broker.get("requests?last=99999")["requests"]) == 2


def test_the_report_of_a_failed_test_in_any_language(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders")
    broker.post("faults/error", api="OffsetCommit", error="NOT_COORDINATOR", n=2)
    commit_as_client(broker, 1)
    last = broker.get("requests")["last_event"]
    assert broker.get("why?group=billing")[0]["name"] == "fault-active"
    lines = broker.get("report")
    assert "injected" in lines[0] or "fault" in lines[0]
    assert [line for line in lines if "OffsetCommit" in line and "NOT_COORDINATOR" in line]
    assert not [
        line for line in broker.get(f"report?after={last}") if "orders-0" in line and "NOT_COOR" in line
    ]


def test_the_inspector_explains_a_recorded_request_and_its_response(
    broker: OneBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.post("create_topic", name="orders")
    commit_as_client(broker, 7)
    (request,) = broker.get("requests?last=1")["requests"]
    found = broker.get(f"requests/{request['number']}/explain")
    words = {side: [" ".join(each.split()[2:]) for each in lines] for side, lines in found.items()}
    assert "committed_offset 7" in words["request"] and "error_code 0 NONE" in words["response"]
    monkeypatch.setattr(control, "_MOST_EXPLAINED_BYTES", 40)
    cut = broker.get(f"requests/{request['number']}/explain")
    assert cut["request"][0].endswith("`kafka-offsets inspect` explain frames of this size")
    assert client.get(f"{broker.path}/requests/99999/explain").status == 404
    assert client.get(f"{broker.path}/requests?last=0").status == 400


def test_a_summary_of_groups_and_of_logs(broker: OneBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing.broker, "_GROUPS_AT_ONCE", 2)
    broker.post("create_topic", name="orders", partitions=2)
    broker.post("produce", topic="orders", records=["a", "b", "c"], partition=1)
    for number in range(3):
        broker.post("commit", group=f"group-{number}", offsets={"orders": {"1": number}})
    found = broker.get("summary")
    expected = {"type": "classic", "state": "Empty", "members": 0}
    assert found["groups"] == [{"group_id": f"group-{i}", **expected, "lag": 3 - i} for i in range(3)]
    offsets, orders = found["topics"]
    assert (orders["name"], orders["partitions"], orders["end"]) == ("orders", 2, 3)
    assert (offsets["name"], offsets["partitions"], offsets["end"]) == ("__consumer_offsets", 50, 3)
    broker.post("produce", topic="orders", records=["x" * 1000], partition=0)
    grown = broker.get("summary")["topics"][1]["bytes"] - orders["bytes"]
    assert 1000 < grown < 1200


def test_an_offset_after_the_log_end_hides_no_lag_of_another_partition(broker: OneBroker) -> None:
    broker.post("create_topic", name="orders", partitions=2)
    broker.post("produce", topic="orders", records=["a", "b", "c"], partition=1)
    broker.post("commit", group="billing", offsets={"orders": {"0": 100, "1": 1}})
    (group,) = broker.get("summary")["groups"]
    assert group["lag"] == 2


def test_an_overview_of_some_groups(broker: OneBroker) -> None:
    for topic, group in (("orders", "billing"), ("returns", "shipping")):
        broker.post("produce", topic=topic, records=["a"])
        broker.post("commit", group=group, offsets={topic: {"0": 1}})
    found = broker.get("overview?groups=billing&groups=unknown")
    assert [each["view"]["group_id"] for each in found["groups"]] == ["billing"]
    assert found["partitions"] == {"orders": {"0": {"log_start_offset": 0, "high_watermark": 1}}}


def test_metrics_of_prometheus(broker: OneBroker, client: Client) -> None:
    broker.post("produce", topic="orders", records=["a", "b", "c"])
    broker.post("commit", group="billing", offsets={"orders": {"0": 1}})
    lines = broker.get("prometheus").splitlines()
    of_group = 'group_id="billing",topic_name="orders"'
    of_partition = 'group_id="billing",partition_id="0",topic_name="orders"'
    for expected in [
        f"kminion_kafka_consumer_group_topic_partition_lag{{{of_partition}}} 2.0",
        f"kminion_kafka_consumer_group_topic_lag{{{of_group}}} 2.0",
        f"kminion_kafka_consumer_group_topic_offset_sum{{{of_group}}} 1.0",
        'kminion_kafka_consumer_group_members{group_id="billing"} 0.0',
        'kminion_kafka_topic_partition_high_water_mark{partition_id="0",topic_name="orders"} 3.0',
        f"kafka_offsets_group_committed_offset{{{of_partition}}} 1.0",
        "kafka_coordinator_group_groupmetadatamanager_numoffsets 1.0",
    ]:
        assert expected in lines
    answer = client.get("/metrics")
    assert answer.status == 200 and "kminion_kafka_consumer_group_members" in answer.value
    assert client.get("/brokers/99/prometheus").status == 404


def test_the_health_of_the_process(client: Client) -> None:
    for path in ("/healthz", "/readyz"):
        answer = client.get(path)
        assert (answer.status, answer.value) == (200, "ok\n")


def test_a_server_is_ready_when_its_broker_is() -> None:
    async def scenario() -> None:
        control = Control("127.0.0.1")
        async with HttpServer(Address("127.0.0.1", 0), control) as server:
            client = Client(server.url)
            answer = await asyncio.to_thread(client.get, "/readyz")
            assert (answer.status, answer.value["detail"]) == (503, "the broker is starting")
            await control.start(Broker())
            assert (await asyncio.to_thread(client.get, "/readyz")).status == 200

    asyncio.run(scenario())


def test_assertions_of_records_need_no_library_for_json(broker: OneBroker, client: Client) -> None:
    """A query has text alone: text that is an object of JSON stands for all that mean the same."""
    broker.post("produce", topic="orders", records=[{"key": "a", "value": {"id": 7, "of": [1]}}])
    path = f"/brokers/{broker.id}"

    def status(operation: str, **given: str) -> int:
        return client.request("POST", f"{path}/{operation}?topic=orders&{urlencode(given)}").status

    assert status("assert_produced", records='{"of":[1],"id":7}', key="a") == 204
    assert status("assert_produced", records="7") == 409
    assert status("assert_nothing_produced", key="b", during="0.01") == 204
    assert status("assert_nothing_produced", value='{"of":[1],"id":7}') == 409
    assert status("assert_nothing_produced", during="601") == 400
    assert [each["key"] for each in broker.get("consume_all?topic=orders&key=a")] == ["a"]
    assert broker.get("consume_all?topic=orders&headers=h=1") == []


def test_an_assertion_waits(broker: OneBroker) -> None:
    """Many that wait leave threads to those that do not."""
    expected = {"topic": "orders", "records": ["a"], "timeout": 30}
    done: list[int] = []
    waiting = [
        threading.Thread(target=lambda: done.append(broker.post("assert_produced", **expected) or 1))
        for _ in range(app._CALLS + 10)
    ]
    for thread in waiting:
        thread.start()
    broker.post("produce", topic="orders", records=["a"])
    for thread in waiting:
        thread.join(40)
    assert len(done) == len(waiting)


@pytest.mark.slow
def test_a_wait_ends_before_the_runners_of_javascript_end_the_test(broker: OneBroker) -> None:
    """Jest and Vitest end a test after 5 s: a failure later than that tells nobody why."""
    status, _, said = broker.refused("wait_for/consuming", group="billing")
    assert status == 504
    assert said.startswith(
        "after 4 s, not yet: group 'billing' is stable, and fetches its partitions; now: group 'billing' does not exist"
    )
