"""A client of ZooKeeper in virtual time, which behaves as kazoo does, and the session of a broker over it."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_offsets.zookeeper import operations
from kafka_offsets.zookeeper.operations import Operation
from kafka_offsets.zookeeper.requests import Children, Get, Outcome, Problem, Request, SessionState, Watch
from tests.replication.simulation.network import CONTROLLER as ZOOKEEPER
from tests.simulation.cluster.zookeeper.server import TIMEOUT_MS
from tests.simulation.cluster.zookeeper.streams import Stream
from tests.simulation.cluster.zookeeper.threads import Call, VirtualThread

if TYPE_CHECKING:
    from tests.simulation.cluster.zookeeper.node import ElectingNode

RETRY_MS = 400

T = TypeVar("T")


class _Sent(NamedTuple):
    """A request without an answer."""

    request: Request
    done: Callable[[Outcome], None]


class VirtualZooKeeper:
    """A client with a thread of its own, which connects again and again.

    post  calls back in the thread that uses the client
    """

    def __init__(self, node: "ElectingNode", post: Callable[[Call], None]) -> None:
        self._node, self._post = node, post
        self._thread = VirtualThread(node)
        self._server = node.world.zookeeper
        self._stream: Stream | None = None
        self._is_connected = self._is_closed = False
        self._heard_ms = 0
        self._waiting: deque[_Sent] = deque()
        self._sent: deque[_Sent] = deque()
        self._watches: dict[int, Watch] = {}
        self._watch_number = 0
        self._on_state: Callable[[SessionState], None] = lambda state: None
        self.session_id = 0

    # -- for the thread that uses it

    def start(self, on_state: Callable[[SessionState], None]) -> None:
        """Connect, and stay connected."""
        self._on_state = on_state
        self._thread.post(self._connect)
        self._thread.post(self._ping)

    def submit(self, requests: Sequence[Request], done: Callable[[list[Outcome]], None]) -> None:
        """Send requests, now or when there is a connection."""
        outcomes: list[Outcome] = [None] * len(requests)
        missing = [len(requests)]

        def ready(index: int, outcome: Outcome) -> None:
            outcomes[index] = outcome
            missing[0] -= 1
            if not missing[0]:
                self._post(lambda: done(outcomes))

        for index, request in enumerate(requests):
            self._waiting.append(_Sent(request, lambda outcome, index=index: ready(index, outcome)))
        self._thread.post(self._flush)

    def close(self) -> None:
        """End the session."""
        self._is_closed = True
        if self._stream is not None:
            self._stream.send(0, self._server.close, self._stream, self.session_id)
            self._stream.close(0)

    # -- in its own thread

    def _connect(self) -> None:
        if self._is_closed:
            return
        network = self._node.world.network
        stream = self._stream = self._node.open(ZOOKEEPER)
        stream.on_end[0] = lambda: self._thread.post(lambda: self._lost(stream))
        self._heard_ms = network.now_ms

        def answer(session_id: int) -> None:
            self._thread.post(lambda: self._connected(stream, session_id))

        stream.send(0, self._server.connect, stream, self.session_id, answer)

    def _connected(self, stream: Stream, session_id: int) -> None:
        if stream is not self._stream:
            return
        if not session_id:
            stream.close(0)
            self.session_id = 0
            self._fail()
            self._report(SessionState.EXPIRED)
            self._connect()
            return
        self.session_id, self._is_connected = session_id, True
        self._heard_ms = self._node.world.network.now_ms
        self._report(SessionState.CONNECTED)
        self._flush()

    def _flush(self) -> None:
        stream = self._stream
        while self._is_connected and self._waiting and stream is not None:
            sent = self._waiting.popleft()
            self._sent.append(sent)
            request = sent.request
            if isinstance(request, Get | Children) and request.watch is not None:
                request = request._replace(watch=self._watching(stream, request.watch))
            stream.send(0, self._server.receive, stream, self.session_id, request, self._answering(stream))

    def _answering(self, stream: Stream) -> Callable[[Outcome], None]:
        def answered(outcome: Outcome) -> None:
            if stream is self._stream:
                self._heard_ms = self._node.world.network.now_ms
                self._sent.popleft().done(outcome)

        return lambda outcome: self._thread.post(lambda: answered(outcome))

    def _watching(self, stream: Stream, watch: Watch) -> Watch:
        """Return a watch that is called once: by a change, or by the loss of the connection."""
        self._watch_number += 1
        number = self._watch_number
        self._watches[number] = watch

        def call() -> None:
            found = self._watches.pop(number, None)
            if found is not None:
                self._post(found)

        return lambda: self._thread.post(call)

    def _ping(self) -> None:
        """Find out that the connection is lost, as nothing else says so."""
        network, stream = self._node.world.network, self._stream
        if self._is_closed:
            return
        if stream is not None and network.now_ms - self._heard_ms > TIMEOUT_MS * 2 // 3:
            stream.close(0)
            self._lost(stream)
        elif stream is not None and self._is_connected:

            def heard() -> None:
                self._heard_ms = network.now_ms

            def answer(_: Outcome) -> None:
                self._thread.post(heard)

            stream.send(0, self._server.receive, stream, self.session_id, None, answer)
        self._node.later(TIMEOUT_MS // 3, lambda: self._thread.post(self._ping))

    def _lost(self, stream: Stream) -> None:
        if stream is not self._stream or self._is_closed:
            return
        self._stream = None
        if self._is_connected:
            self._is_connected = False
            self._fail()
            self._report(SessionState.DISCONNECTED)
            watches, self._watches = self._watches, {}
            for watch in watches.values():
                self._post(watch)
        self._node.later(RETRY_MS, lambda: self._thread.post(self._connect))

    def _fail(self) -> None:
        failed = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        for each in failed:
            each.done(Problem.UNAVAILABLE)

    def _report(self, state: SessionState) -> None:
        self._post(lambda: self._on_state(state))


class VirtualSession:
    """What `ClusterSession` is, with a thread in virtual time."""

    def __init__(self, node: "ElectingNode") -> None:
        self._node = node
        self._thread = VirtualThread(node)
        self._client = VirtualZooKeeper(node, self._thread.post)
        self.is_connected = False
        self.on_state: Callable[[SessionState], None] = lambda state: None

    @property
    def session_id(self) -> int:
        return self._client.session_id

    def start(self) -> None:
        """Connect, and stay connected."""
        self._client.start(self._changed)

    def stop(self) -> None:
        """End the session, and with it what is registered in it."""
        self.is_connected = False
        self._client.close()

    def _changed(self, state: SessionState) -> None:
        self.is_connected = state is SessionState.CONNECTED
        self.on_state(state)

    def run(self, wanted: Operation[T], timeout_s: float) -> T:
        """Take steps; the thread that calls this waits. Raises what they raise, and TimeoutError."""
        ended: list[T | Exception] = []
        caller = VirtualThread.current()

        def end(outcome: T | Exception) -> None:
            ended.append(outcome)
            caller.wake()

        self.call(lambda: self.begin(wanted, end))
        if not caller.wait(lambda: ended, self._node.real_ms(timeout_s)):
            raise TimeoutError
        (outcome,) = ended
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def call(self, call: Call) -> None:
        """Call in the thread of the session."""
        self._thread.post(call)

    def begin(self, wanted: Operation[T], ended: Callable[[T | Exception], None]) -> None:
        """Take steps, and pass their result or error on."""
        operations.run(wanted, self._client.submit, ended)

    def later(self, seconds: float, call: Call) -> None:
        """Call after some time."""
        self._node.later(int(seconds * 1000), lambda: self._thread.post(call))
