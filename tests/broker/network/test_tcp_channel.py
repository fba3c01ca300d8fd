"""TCP channels: requests and answers between brokers, and what is reported when a connection is lost."""

import asyncio
import struct
from collections.abc import Callable

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.network.tcp_channel import ChannelLimits, TcpChannel
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.security.credential import Secret
from kafka_offsets.storage.files.files import MemoryFiles

LIMITS = ChannelLimits(1 << 20, 20_000)
SOON = ChannelLimits(1 << 20, 1000)
"""Also the limit of connecting: not so short that a slow machine needs it for that."""
METADATA_VERSION, FETCH_VERSION = 12, 17


class Answers:
    """The answers that a channel has passed on, in their order."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self._arrived = asyncio.Event()

    def __call__(self, answer: object) -> None:
        self.taken.append(answer)
        self._arrived.set()

    async def until(self, count: int) -> list[object]:
        async with asyncio.timeout(20):
            while len(self.taken) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.taken


class Side:
    """The broker that sends: a test counts its turns.

    address   of the other broker, as the metadata have it
    security  how it connects
    """

    def __init__(
        self,
        address: tuple[str, int] | None,
        limits: ChannelLimits = LIMITS,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self.address = address
        self.turns = 0
        self.answers = Answers()
        self.security = security
        self.channel = TcpChannel(
            "broker-1", 2, lambda node_id: self.address, self._turn, limits, lambda: self.security
        )

    def _turn(self) -> None:
        self.turns += 1

    def ask(self, *topics: str) -> None:
        wanted = messages.MetadataRequest
        request = wanted([wanted.Topic(name=name) for name in topics])
        self.channel.send(request, METADATA_VERSION, self.answers)


async def started(config: Config | None = None) -> Server:
    server = Server(Config() if config is None else config, MemoryFiles())
    await server.start("127.0.0.1", 0)
    return server


def address(server: Server) -> tuple[str, int]:
    return server.core.broker.node.host, server.core.broker.node.port


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the channel has no event for it
            await asyncio.sleep(0)


async def foreign(answer: bytes, *, closes: bool = False) -> tuple[asyncio.Server, tuple[str, int]]:
    """Listen as something else than a broker: it answers the first bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(answer)
        if not closes:
            await reader.read()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    return listening, listening.sockets[0].getsockname()


def test_answers_are_in_the_order_of_the_requests() -> None:
    async def play() -> None:
        server = await started()
        side = Side(address(server))
        for number in range(5):
            side.ask(f"t{number}")
        assert side.answers.taken == []
        answers = await side.answers.until(5)
        assert [answer.topics[0].name for answer in answers] == [f"t{number}" for number in range(5)]
        assert side.turns == 5
        side.ask("again")
        assert (await side.answers.until(6))[-1].topics[0].name == "again"
        side.channel.close()
        await server.stop()

    asyncio.run(play())


def test_the_next_request_after_a_loss_goes_to_where_the_broker_listens_then() -> None:
    async def play() -> None:
        first = await started()
        side = Side(address(first))
        side.ask("t")
        await side.answers.until(1)
        await first.stop()
        second = await started()
        side.address = address(second)
        await until(lambda: side.channel._connection is None)
        side.ask("u")
        assert (await side.answers.until(2))[-1].topics[0].name == "u"
        side.channel.close()
        await second.stop()

    asyncio.run(play())


@pytest.mark.parametrize("is_known", [True, False], ids=["nothing listens", "the metadata do not know it"])
def test_an_unreachable_broker_is_reported_later_to_all_waiting_requests_and_logged_once(
    is_known, caplog
) -> None:
    async def play() -> None:
        server = await started()
        gone = address(server)
        await server.stop()
        side = Side(gone if is_known else None)
        side.ask()
        side.ask()
        assert side.answers.taken == []
        assert await side.answers.until(2) == [None, None]
        assert side.turns == 1
        side.ask()
        assert await side.answers.until(3) == [None] * 3

    asyncio.run(play())
    told = [each for each in caplog.messages if "the connection to broker 2" in each]
    assert len(told) == 1
    assert ("refuses the connection" if is_known else "do not know") in told[0]


def test_a_host_that_cannot_be_one_is_a_lost_connection(caplog) -> None:
    """A broker may advertise any host."""

    async def play() -> None:
        side = Side(("a..b", 9092))
        side.ask()
        assert await side.answers.until(1) == [None]

    asyncio.run(play())
    assert "the connection to broker 2 at a..b:9092 is lost" in caplog.text


def test_all_requests_without_an_answer_are_lost_with_the_connection(caplog) -> None:
    async def play() -> None:
        closing, where = await foreign(b"", closes=True)
        side = Side(where)
        side.ask()
        side.ask()
        assert await side.answers.until(2) == [None, None]
        closing.close()

    asyncio.run(play())
    assert "the broker closed the connection before it answered" in caplog.text


def test_a_closed_channel_reports_nothing_and_opens_again() -> None:
    async def play() -> None:
        server = await started()
        silent, where = await foreign(b"")
        side = Side(where)
        side.ask("lost")
        side.channel.close()  # while it connects
        side.ask("lost")
        await until(lambda: side.channel._connection.transport is not None)
        side.channel.close()
        side.address = address(server)
        side.ask("found")
        (answer,) = await side.answers.until(1)
        assert answer.topics[0].name == "found"
        side.channel.close()
        silent.close()
        await server.stop()

    asyncio.run(play())


def test_a_loss_from_before_a_close_is_not_reported_after_it() -> None:
    # A follower that closes the channel sends its next Fetch on it: the late report would end that one.
    async def play() -> None:
        side = Side(None)
        side.ask()
        await asyncio.sleep(0)  # it is lost now, and reported in the next round of the loop
        side.channel.close()
        await asyncio.sleep(0)
        assert side.answers.taken == []
        side.ask()
        assert await side.answers.until(1) == [None]

    asyncio.run(play())


def test_a_request_without_an_answer_closes_the_connection_in_the_end(caplog) -> None:
    async def play() -> None:
        silent, where = await foreign(b"")
        side = Side(where, SOON)
        side.ask()
        assert await side.answers.until(1) == [None]
        silent.close()

    asyncio.run(play())
    assert "no answer to Metadata in 1000 ms" in caplog.text


def test_a_fetch_has_the_time_that_it_may_wait_on_top(caplog) -> None:
    async def play() -> None:
        silent, where = await foreign(b"")
        side = Side(where, SOON)
        side.channel.send(messages.FetchRequest(max_wait_ms=200, min_bytes=1), FETCH_VERSION, side.answers)
        assert await side.answers.until(1) == [None]
        silent.close()

    asyncio.run(play())
    assert "no answer to Fetch in 1200 ms" in caplog.text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1213486160 bytes"),
        (struct.pack(">iib", 5, 77, 0), "an answer to request 77"),
        (struct.pack(">iib", 5, 1, 0), "not an answer of a broker"),
        (struct.pack(">i", 2 << 20), "a frame of 2097152 bytes"),
    ],
    ids=["HTTP", "another request's", "cut off", "too large"],
)
def test_a_foreign_answer_is_a_lost_connection_with_a_clear_line(answer: bytes, reason: str, caplog) -> None:
    async def play() -> None:
        listening, where = await foreign(answer)
        side = Side(where)
        side.ask()
        side.ask()
        assert await side.answers.until(2) == [None, None]
        listening.close()

    asyncio.run(play())
    assert "this is not an answer of a broker" in caplog.text
    assert reason in caplog.text


def test_an_answer_with_an_unknown_value_is_a_lost_connection(caplog) -> None:
    async def play() -> None:
        server = await started()
        side = Side(address(server))
        taken: list[object] = []

        def take(answer: object) -> None:
            taken.append(answer)
            if answer is not None:
                ErrorCode(31_000)

        side.channel.send(messages.MetadataRequest([]), METADATA_VERSION, take)
        side.ask()
        assert await side.answers.until(1) == [None]
        assert taken[1:] == [None]
        await server.stop()

    asyncio.run(play())
    assert "31000 is not a valid ErrorCode" in caplog.text


# -- with SASL

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.users": "admin=hush",
    "connection.failed.authentication.delay.ms": 0,
    "connections.max.reauth.ms": 60_000,
}


def admin(password: str = "hush", mechanism: str = "PLAIN") -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", None, Login(mechanism, "admin", Secret(password)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_channel_logs_in_again_before_its_session_ends(mechanism: str) -> None:
    """What is sent in the meantime waits, and everything is answered on the one connection."""

    async def play() -> None:
        server = await started(Config.load(SASL))
        side = Side(address(server), security=admin(mechanism=mechanism))
        side.ask("t0")
        side.ask("t1")
        await side.answers.until(2)
        (connection,) = server.core.connections
        assert connection.principal.name == "admin"
        protocol = side.channel._connection.protocol
        first_ms = protocol.login_due_ms
        assert 0 < first_ms / 1000 - asyncio.get_running_loop().time() < 60
        protocol.login_due_ms = 0.0  # it is time
        side.ask("t2")
        side.ask("t3")
        answers = await side.answers.until(4)
        assert [answer.topics[0].name for answer in answers] == ["t0", "t1", "t2", "t3"]
        assert (*server.core.connections,) == (connection,)
        assert connection.authentication._restarted_ms is not None
        assert protocol.login_due_ms > first_ms
        side.channel.close()
        await server.stop()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("security", "reason"),
    [
        (admin("other"), "the login is refused: Authentication failed: Invalid username or password"),
        (
            ClientSecurity("SASL_PLAINTEXT", None, Login("SCRAM-SHA-1", "admin", Secret("hush"))),
            "SCRAM-SHA-1 is not one of PLAIN, SCRAM-SHA-256,",
        ),
        (PLAINTEXT, "the broker closed the connection before it answered: is PLAINTEXT the protocol"),
    ],
    ids=["wrong password", "unknown mechanism", "no login"],
)
def test_a_refused_login_is_the_loss_of_the_connection(
    security: ClientSecurity, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def play() -> None:
        server = await started(Config.load(SASL))
        side = Side(address(server), security=security)
        for count in (1, 2, 3):
            side.ask("t")
            assert await side.answers.until(count) == [None] * count
        side.security = admin()
        side.ask("t")
        assert (await side.answers.until(4))[-1] is not None
        side.channel.close()
        await server.stop()

    asyncio.run(play())
    told = [each.getMessage() for each in caplog.records if each.name.endswith("tcp_channel")]
    assert len(told) == 2, "one line for the loss, one for the end"
    assert f"is lost: {reason}" in told[0]
    assert told[1] == "broker 2 answers again"
    assert "hush" not in caplog.text
