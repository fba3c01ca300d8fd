"""Controller link: the connection of a broker to the controller of its cluster, in another process.

Messages arrive on the event loop. Only where a handler needs a response does the whole broker wait for it, for
`_ANSWER_SECONDS` at most: `wait` reads the same socket, so that everything is received in order. This is why the link
has a socket of its own instead of a transport. A lost connection is made again, with a growing pause. With TLS or SASL
between brokers it is encrypted and logs in before it registers, with the messages of `controller_login`.
"""

import asyncio
import select
import socket
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from kafka_offsets.broker.nodes.controller_endpoint import MOST_FRAME_BYTES, framed
from kafka_offsets.client.frame_stream import READ_BYTES, FrameStream
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import ConnectionLostError, ProtocolError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.json_form import Fields, from_json, to_json
from kafka_offsets.metadata.remote_membership import RemoteMembership

Address = tuple[str, int]

_ANSWER_SECONDS = 2.0
"""The time that the broker waits for a response; after that, the connection counts as lost."""

_SILENT = f"no answer in {_ANSWER_SECONDS:g} s"

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
_HEARTBEATS_PER_TIMEOUT = 4
_HEARTBEAT = framed(b'{"heartbeat":true}')

_NOT_YET = (BlockingIOError, InterruptedError)

T = TypeVar("T")

logger = new_logger(__name__)


class ControllerLink:
    """Connects one `RemoteMembership` with the controller, from `start` on.

    address       returns where the controller is, None while that is not known
    registration  returns the first message of a connection
    request_turn  ends the turn of the broker, which has received something
    security      returns how it connects and logs in, as that is now
    _beats        when each heartbeat without a response was sent; `_answered_at` that of the last one with a response
    """

    def __init__(
        self,
        membership: RemoteMembership,
        address: Callable[[], Address | None],
        registration: Callable[[], bytes],
        session_timeout_ms: int,
        request_turn: Callable[[], None],
        security: Callable[[], ClientSecurity] = lambda: PLAINTEXT,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._membership = membership
        self._address, self._registration = address, registration
        self._timeout_seconds = session_timeout_ms / 1000
        self._request_turn, self._security = request_turn, security
        self._socket: socket.socket | None = None
        self._stream: FrameStream | None = None
        self._unsent = bytearray()
        self._lost = asyncio.Event()
        self._joined = asyncio.Event()
        self._moved = asyncio.Event()
        self._connected_to: Address | None = None
        self._task: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._received_at = self._answered_at = self._beat_at = 0.0
        self._beats: deque[float] = deque()
        self._warned = ""

    async def start(self) -> None:
        """Connect, again and again if need be; return when the broker takes part in the cluster."""
        self._task = self._loop.create_task(self._run())
        await self._joined.wait()

    def poll(self) -> None:
        """Look at once where the controller is now; a connection to an earlier one is closed."""
        self._moved.set()
        if self._socket is not None and self._address() not in (None, self._connected_to):
            self._lose("another controller was elected")

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._disconnect()

    async def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            address = self._address()
            if address is not None:
                self._lost.clear()
                try:
                    await self._connect(address)
                except (OSError, UnicodeError, ConnectionLostError, ProtocolError) as error:
                    where = f"{address[0]}:{address[1]}"
                    strerror = error.strerror if isinstance(error, OSError) else None
                    reason = strerror or str(error) or "it does not accept a connection in time"
                    self._warn(
                        f"the controller at {where} is not reached: {reason.removeprefix(f'{where}: ')}"
                    )
                else:
                    await self._lost.wait()
                    if self._joined.is_set():
                        pause = _FIRST_PAUSE_SECONDS
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause / 2):
                    await self._moved.wait()
                    pause = _FIRST_PAUSE_SECONDS
            self._moved.clear()

    async def _connect(self, address: Address) -> None:
        """Connect and register. Raises what `secured` does, and UnicodeError for what cannot be a host."""
        async with asyncio.timeout(self._timeout_seconds):
            connecting = await self._connected(address)
            stream = await secured(connecting, address, self._security())
        if self._address() not in (None, address):
            connecting.close()
            raise ConnectionError("another controller was elected in the meantime")
        self._socket, self._stream = connecting, stream
        self._connected_to = address
        self._received_at = self._answered_at = self._beat_at = self._loop.time()
        self._beats.clear()
        self._loop.add_reader(connecting, self._receive_soon)
        self._put(framed(self._registration()))
        self._beat()

    async def _connected(self, address: Address) -> socket.socket:
        """Connect to the first address of a host that accepts. Raises OSError, that of the last one."""
        refused = OSError(f"{address[0]} has no address")
        for family, kind, protocol, _, socket_address in await self._loop.getaddrinfo(
            *address, type=socket.SOCK_STREAM
        ):
            connecting = socket.socket(family, kind, protocol)
            try:
                connecting.setblocking(False)
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(connecting, socket_address)
            except OSError as error:
                connecting.close()
                refused = error
            except BaseException:
                connecting.close()
                raise
            else:
                return connecting
        raise refused

    def _beat(self) -> None:
        """Send a heartbeat now and then; a controller that does not answer is lost."""
        now, pause = self._loop.time(), self._timeout_seconds / _HEARTBEATS_PER_TIMEOUT
        if now - self._beat_at > 2 * pause:
            self._received_at = now  # this process was stopped, and has not read what has arrived
        self._beat_at = now
        self._heartbeat = self._loop.call_later(pause, self._beat)
        if now - self._received_at > self._timeout_seconds:
            self._lose(f"nothing was received for {self._timeout_seconds:g} s")
        else:
            self._put_heartbeat()

    def _put_heartbeat(self) -> None:
        self._beats.append(self._loop.time())
        self._put(_HEARTBEAT)

    # -- as the `Link` of the membership

    def send(self, message: bytes) -> None:
        """Send a message."""
        self._put(framed(message))

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Block this broker until `is_done`, for a limited time; what has arrived by then is received."""
        deadline = monotonic_s() + _ANSWER_SECONDS
        while not is_done() and self._socket is not None:
            left = max(deadline - monotonic_s(), 0)
            poll = select.poll()
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            if poll.poll(1000 * left):
                self._flush()
                self._receive()
            elif not left:
                self._lose(_SILENT)

    def probe(self) -> None:
        """Send a heartbeat; the controller is lost if nothing is received for `_ANSWER_SECONDS`."""
        probed, began = self._socket, self._loop.time()

        def check() -> None:
            """Lose a controller that was silent since."""
            if self._socket is probed and self._received_at < began:
                self._lose(_SILENT)

        self._loop.call_later(_ANSWER_SECONDS, check)
        self._put_heartbeat()

    def answered(self) -> None:
        """Record that the controller has answered the oldest heartbeat without a response."""
        if not self._beats:
            raise ProtocolError("an answer to no heartbeat", 0)
        self._answered_at = self._beats.popleft()

    @property
    def may_be_fenced(self) -> bool:
        """Whether the session has ended, as far as this broker knows.

        A heartbeat that was received long after it was sent proves nothing: this process may have been stopped.
        """
        return self._loop.time() - self._answered_at > self._timeout_seconds

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back between two requests."""

        def call() -> None:
            """Call back; a wrong answer of the controller ends the connection to it."""
            try:
                callback()
            except ProtocolError as error:
                self._lose(str(error))
            self._request_turn()

        self._loop.call_soon(call)

    # -- bytes

    def _put(self, data: bytes) -> None:
        if self._stream is None:
            return
        self._stream.put(data)
        self._flush()
        if self._unsent and self._socket is not None:
            self._loop.add_writer(self._socket, self._flush)

    def _flush(self) -> None:
        if self._socket is None or self._stream is None:
            return
        self._unsent += self._stream.take_output()
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except _NOT_YET:
            return
        except OSError as error:
            self._lose_later(error.strerror or str(error))
            return
        self._loop.remove_writer(self._socket)

    def _receive_soon(self) -> None:
        self._receive()
        self._request_turn()

    def _receive(self) -> None:
        """Pass on what has arrived."""
        stream = self._stream
        if self._socket is None or stream is None:
            return
        try:
            stream.receive(self._socket.recv(READ_BYTES))
        except _NOT_YET:
            return
        except OSError as error:
            stream.lose(error.strerror or str(error))
        else:
            self._received_at = self._loop.time()
        try:
            while stream is self._stream and (frame := stream.next_frame()) is not None:
                self._membership.receive(self, frame)
        except (ConnectionLostError, ProtocolError) as error:
            stream.fail(error)
            self._lose(stream.why)
        if self._membership.is_reachable:
            self._joined.set()
            self._warned = ""

    def _lose_later(self, reason: str) -> None:
        """A message could not be sent: the sender is in the middle of something that the loss would change."""
        lost = self._socket
        self._loop.call_soon(lambda: self._lose(reason) if self._socket is lost else None)

    def _lose(self, reason: str) -> None:
        if self._socket is None:
            return
        self._warn(f"the connection to the controller is lost: {reason}")
        self._disconnect()
        self._membership.lost()
        self._request_turn()
        self._lost.set()

    def _warn(self, text: str) -> None:
        """Log what prevents this broker from taking part, once while it tries again and again."""
        if text != self._warned:
            self._warned = text
            logger.warning(text)

    def _disconnect(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
        self._socket = self._stream = None
        self._unsent.clear()


async def secured(connected: socket.socket, address: Address, security: ClientSecurity) -> FrameStream:
    """Return the frames of a socket that is connected to a controller, once that has let this broker log in.

    connected  does not block; it is closed if this fails
    Raises OSError, and ConnectionLostError and ProtocolError, which name the address.
    """
    stream = FrameStream(address, security, MOST_FRAME_BYTES, "the controller")
    try:
        await _exchange(connected, stream, lambda: stream.is_open or stream.next_frame())
        if security.login is not None:
            await _log_in(connected, stream, security.login)
    except BaseException:
        connected.close()
        raise
    stream.is_accepted = True
    return stream


async def _log_in(connected: socket.socket, stream: FrameStream, login: Login) -> None:
    tokens = login.exchange()
    message = {"login": login.mechanism}
    try:
        token = next(tokens)
        while True:
            stream.put(framed(to_json(message | {"token": b64encode(token).decode()})))
            response = Fields(from_json(await _exchange(connected, stream, stream.next_frame)), "answer")
            if "refused" in response:
                raise ConnectionError(f"the login is refused: {response.text('refused')}")
            message, token = {}, tokens.send(b64decode(response.text("token"), validate=True))
    except StopIteration:
        return
    except ValueError as error:
        raise ConnectionError(f"the login has failed: {error}") from None


async def _exchange(connected: socket.socket, stream: FrameStream, result: Callable[[], T | None]) -> T:
    """Send and receive until there is a result."""
    loop = asyncio.get_running_loop()
    while (outcome := result()) is None:
        await loop.sock_sendall(connected, stream.take_output())
        stream.receive(await loop.sock_recv(connected, READ_BYTES))
        await loop.sock_sendall(connected, stream.take_output())  # what TLS answers, an alert too
    return outcome
