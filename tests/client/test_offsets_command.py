"""Offsets of a running broker, listed and committed: by the command line and by the broker in this process."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kafka_offsets import Broker, CommitRefusedError, ErrorCode, cli
from kafka_offsets.client import commits
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.errors import ConnectionLostError, ProtocolError, RefusedError
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient
from tests.drivers.members import join_request, stable


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", 3)
        yield running


def offsets_of(broker: Broker, group: str = "billing") -> dict[tuple[str, int], int]:
    return {place: entry.offset for place, entry in broker.committed(group).items()}


def run(broker: Broker, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["offsets", *words, "--bootstrap-server", broker.bootstrap_servers])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_what_was_committed_is_listed(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(broker, capsys, "commit", "billing", "orders:2=7", "orders:0=42") == (0, "", "")
    code, said, complaints = run(broker, capsys, "list", "billing")
    assert (code, complaints) == (0, "")
    assert [line.split() for line in said.splitlines()] == [
        ["TOPIC", "PARTITION", "CURRENT-OFFSET", "METADATA"],
        ["orders", "0", "42", "-"],
        ["orders", "2", "7", "-"],
    ]
    code, said, _ = run(broker, capsys, "list", "billing", "--json")
    place = {"group": "billing", "topic": "orders", "metadata": ""}
    expected = [place | {"partition": 0, "offset": 42}, place | {"partition": 2, "offset": 7}]
    assert (code, [json.loads(line) for line in said.splitlines()]) == (0, expected)


def test_a_partition_that_is_not_committed_is_named(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = run(broker, capsys, "commit", "billing", "orders:0=1", "orders:3=1")
    assert (code, out) == (1, "")
    assert said == "kafka-offsets: topic orders has no partition 3: it has 3\n"
    assert offsets_of(broker) == {("orders", 0): 1}


def test_an_expected_offset_is_compared(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = "commit", "billing", "orders:0=2", "orders:1=2"
    assert run(broker, capsys, *wanted, "--expect", "orders:0=-1") == (0, "", "")
    code, _, said = run(broker, capsys, *wanted, "--expect", "orders:0=1")
    assert code == 1
    assert said == (
        "kafka-offsets: commit of group billing: orders-0 COMMITTED_OFFSET_MISMATCH (10000), "
        "offset 2 is committed; orders-1 OPERATION_NOT_ATTEMPTED (55)\n"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("commit", "g", "orders=1"),
            "argument TOPIC:PARTITION=OFFSET: orders=1 is not TOPIC:PARTITION=OFFSET",
        ),
        (("commit", "g", "orders:x=1"), "orders:x=1 is not TOPIC:PARTITION=OFFSET"),
        (
            ("commit", "g", "t:0=1", "--expect", "t:1=1"),
            "--expect names a partition for which no offset is given",
        ),
        (("commit", "g", f"t:0={1 << 63}"), f"t:0={1 << 63}: an offset is from 0 to {(1 << 63) - 1}"),
        (("commit", "g", "t:0=-1"), "t:0=-1: an offset is from 0 to "),
        (("commit", "g", "t:0=" + "9" * 5000), "the number is too large"),
        (("commit", "g", "t:99999999999=1"), "t:99999999999=1: a partition is from 0 to 2147483647"),
        (
            ("commit", "g", "t:0=1", "--expect", f"t:0={10**20}"),
            f"argument --expect: t:0={10**20}: an offset ",
        ),
        (("commit", "g", "t:0=1", "--expect", "t:0=-2"), "or -1 for nothing"),
        (("commit", "g", "t:0=1", "t:1=1", "t:0=2"), "kafka-offsets: t-0 is named twice, with 1 and 2"),
        (("commit", "g", "t:0=1", "--expect", "t:0=3", "--expect", "t:0=4"), "--expect: t-0 is named twice"),
        ((), "the following arguments are required: ACTION"),
        (("list", "g"), "name a broker, with --bootstrap-server HOST:PORT"),
        (("list", "g", "--bootstrap-server", "here"), "here is not HOST:PORT"),
        (("list", "g", "--bootstrap-server", "here:1,"), "the empty string is not HOST:PORT"),
    ],
)
def test_what_cannot_be_asked_is_reported_in_a_line(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*words]
    if "--bootstrap-server" not in words and words[:1] == ("commit",):
        given += ["--bootstrap-server", "127.0.0.1:1"]
    code: object
    try:
        code = cli.main(["offsets", *given])
    except SystemExit as exit_:
        code = exit_.code
    said = capsys.readouterr().err
    assert code == cli.CANNOT
    assert line in said and said.count("\n") == 1


def test_an_unreachable_broker_is_reported_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = ["offsets", "list", "g", "--bootstrap-server", f"127.0.0.1:{port}", "--timeout", "150"]
    assert cli.main(words) == cli.CANNOT
    line = f"kafka-offsets: 127.0.0.1:{port}: Connection refused: is a broker running there?"
    assert capsys.readouterr().err == f"{line}; trying again for up to 0.15 s\n{line}\n"


@pytest.mark.parametrize("words", [("offsets", "list", "g"), ("groups", "describe", "g"), ("groups", "list")])
def test_several_addresses_are_tried_in_turn(
    words: tuple[str, ...], broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.commit("g", {("orders", 0): 1})
    with socket.socket() as first, socket.socket() as second:
        for refusing in (first, second):
            refusing.bind(("127.0.0.1", 0))  # and does not listen
        dead, other = (f"127.0.0.1:{refusing.getsockname()[1]}" for refusing in (first, second))
        assert cli.main([*words, "--bootstrap-server", f"{dead},{broker.bootstrap_servers}"]) == 0
        assert capsys.readouterr().out
        addresses = f"{dead}, {other},{dead}"
        assert cli.main([*words, "--bootstrap-server", addresses, "--timeout", "150"]) == cli.CANNOT
    refused = "; ".join(f"{each}: Connection refused: is a broker running there?" for each in (dead, other))
    assert capsys.readouterr().err.splitlines()[-1] == f"kafka-offsets: {refused}"


def test_the_broker_in_this_process_commits(broker: Broker) -> None:
    broker.commit("billing", {("orders", 0): 1, ("orders", 1): 2})
    broker.commit("billing", {("orders", 0): 5}, expected={("orders", 0): 1})
    assert offsets_of(broker) == {("orders", 0): 5, ("orders", 1): 2}
    with pytest.raises(CommitRefusedError, match="orders-0 COMMITTED_OFFSET_MISMATCH") as refused:
        broker.commit("billing", {("orders", 0): 6, ("orders", 2): 6}, expected={("orders", 0): None})
    assert refused.value.errors == {
        ("orders", 0): ErrorCode.COMMITTED_OFFSET_MISMATCH,
        ("orders", 2): ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
    assert refused.value.found == {("orders", 0): 5}
    with pytest.raises(
        CommitRefusedError, match=r"orders-2 COMMITTED_OFFSET_MISMATCH .*, nothing is committed$"
    ):
        broker.commit("billing", {("orders", 2): 6}, expected={("orders", 2): 2})
    with pytest.raises(ValueError, match="without a new one: orders-1"):
        broker.commit("billing", {("orders", 0): 6}, expected={("orders", 1): 2})


def test_numbers_that_no_request_has_room_for_are_named(broker: Broker) -> None:
    with pytest.raises(ValueError, match=f"orders-0: the offset is {2**70}, beyond 64 bits"):
        broker.commit("billing", {("orders", 0): 2**70})
    with pytest.raises(ValueError, match=f"orders-{2**31}: the partition is {2**31}, beyond 32 bits"):
        broker.commit("billing", {("orders", 2**31): 1})
    with pytest.raises(ValueError, match="orders-0: the expected offset is "):
        broker.commit("billing", {("orders", 0): 1}, expected={("orders", 0): 2**63})
    with pytest.raises(ValueError, match="orders-0: the offset is -1, and offsets begin at 0"):
        broker.commit("billing", {("orders", 0): -1})
    with pytest.raises(TypeError, match="orders-0: the offset is '1', not an int"):
        broker.commit("billing", {("orders", 0): "1"})  # type: ignore[dict-item]
    assert offsets_of(broker) == {}


def test_of_many_that_expect_the_same_one_commits(broker: Broker) -> None:
    won: list[int] = []

    def compete(number: int) -> None:
        for base in range(20):
            while True:
                current = offsets_of(broker).get(("orders", 0))
                if current is not None and current // 100 > base:
                    break
                try:
                    wanted = {("orders", 0): 100 * (base + 1) + number}
                    broker.commit("billing", wanted, expected={("orders", 0): current})
                except CommitRefusedError:
                    continue
                won.append(base)
                break

    threads = [threading.Thread(target=compete, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [*range(20)]


def test_a_commit_is_durable_when_it_returns(tmp_path: object) -> None:
    with Broker({"fsync": "commit"}, data_directory=str(tmp_path)) as broker:
        broker.create_topic("orders")
        broker.commit("billing", {("orders", 0): 1})
        assert offsets_of(broker) == {("orders", 0): 1}


def test_the_thread_of_the_brokers_loop_cannot_wait_for_itself() -> None:
    async def main() -> None:
        async with Broker() as broker:
            broker.create_topic("orders")
            with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
                broker.commit("billing", {("orders", 0): 1})
            await asyncio.to_thread(broker.commit, "billing", {("orders", 0): 1})
            assert offsets_of(broker) == {("orders", 0): 1}

    asyncio.run(main())


def test_a_stopped_broker_commits_nothing() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="not running"):
        broker.commit("billing", {("orders", 0): 1})


def test_a_broker_that_is_stopped_in_between_answers_that(broker: Broker) -> None:
    server = broker._server
    assert server is not None
    broker._call(lambda server: stable(server.core, [b""]))
    waiting = broker._call(lambda server: server.exchange(join_request(), 2))
    broker.stop()
    with pytest.raises(RuntimeError, match="stopped before"):
        waiting.result(5)


def test_a_group_with_members_refuses_other_clients(broker: Broker) -> None:
    broker._call(lambda server: stable(server.core, [b""]))
    with pytest.raises(CommitRefusedError) as refused:
        broker.commit("g", {("orders", 0): 1})
    assert refused.value.errors == {("orders", 0): ErrorCode.UNKNOWN_MEMBER_ID}


class Plain:
    """A broker that answers every request with bytes given beforehand."""

    def __init__(self, *answers: bytes) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = self.listening.getsockname()
        self.thread = threading.Thread(target=self.serve, args=(answers,))
        self.thread.start()

    def serve(self, answers: tuple[bytes, ...]) -> None:
        peer, _ = self.listening.accept()
        with peer, self.listening:
            for answer in answers:
                assert peer.recv(1 << 16)
                peer.sendall(answer)


def commit_answer(number: int = 1, behind: bytes = b"") -> bytes:
    response = messages.OffsetCommitResponse
    answer = response(topics=[response.Topic("t", partitions=[response.Partition(0, 0)])])
    body = struct.pack(">iB", number, 0) + messages.encode(answer, 8) + behind
    return struct.pack(">i", len(body)) + body


REQUEST = commits.request("g", {("t", 0): 1}, {("t", 0): None})


def call(*answers: bytes) -> messages.OffsetCommitResponse:
    plain = Plain(*answers)
    try:
        with Connection(*plain.address) as connection:
            return connection.call(REQUEST, 8)
    finally:
        plain.thread.join()


def test_a_broker_without_conditions_is_recognized_by_its_answer() -> None:
    answer = call(commit_answer())
    commits.check("g", answer, {})
    with pytest.raises(ProtocolError, match="committed t-0 without a check"):
        commits.check("g", answer, {("t", 0): None})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (commit_answer(2), "an answer to request 2, not to 1"),
        (commit_answer(1, b"xx"), "2 bytes after"),
        (struct.pack(">i", -1), "a frame of -1 bytes"),
        (struct.pack(">ii", 4, 1), "OffsetCommit|header|Response|tag|byte"),
    ],
)
def test_a_malformed_answer_is_a_protocol_error(answer: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        call(answer)


def test_a_connection_that_ends_is_reported() -> None:
    with pytest.raises(ConnectionLostError, match="closed the connection before it answered"):
        call(commit_answer()[:9])


def test_a_coordinator_that_is_never_ready_is_reported(broker: Broker) -> None:
    core = broker._server.core  # type: ignore[union-attr]
    client = broker._call(lambda server: CoreClient(core))
    broker._call(lambda server: client.commit("billing", {("orders", 0): 1}))
    broker._call(lambda server: [hosted.begin_loading() for hosted in core.runtime.all_shards()])
    core.runtime.by_group.clear()
    where = parse_address(broker.bootstrap_servers)
    with Coordinator(where, "billing", 2.0) as coordinator, pytest.raises(RefusedError, match=r"\(14\)"):
        coordinator.committed()


@pytest.mark.parametrize("address", ["[::1]:9092", "host:1"])
def test_addresses(address: str) -> None:
    host, port = parse_address(address)
    assert address in (f"{host}:{port}", f"[{host}]:{port}")
