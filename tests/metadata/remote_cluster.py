"""A controller and brokers that exchange messages without sockets; each broker receives when the test says so."""

from collections import deque
from collections.abc import Callable

from kafka_offsets.errors import ProtocolError
from kafka_offsets.metadata.controller import Controller
from kafka_offsets.metadata.controller_service import BrokerSession, ControllerService
from kafka_offsets.metadata.image import Delta
from kafka_offsets.metadata.json_form import Json, from_json, to_json
from kafka_offsets.metadata.remote_membership import RemoteMembership
from kafka_offsets.metadata.store import MemoryStore

CLUSTER = "cluster"


class RemoteBroker:
    """One broker, with its connection as the `Link` of its membership.

    changes   all that its membership has reported
    arriving  messages of the controller that it has not received
    gathers   let proposals of in-sync replicas wait
    loses     drop what it sends: the controller is not reached
    """

    def __init__(self, service: ControllerService, broker_id: int, incarnation: str = "first") -> None:
        self.service = service
        self.membership = RemoteMembership(broker_id, incarnation)
        self.changes: list[Delta] = []
        self.membership.on_change = self.changes.append
        self.arriving: deque[bytes] = deque()
        self.soon_calls: list[Callable[[], None]] = []
        self.loses = self.gathers = False
        self.connect()

    def connect(self) -> None:
        self.arriving.clear()
        self.is_connected = True
        self.session = BrokerSession(self.arriving.append, self.closed)

    def register(self, *, was_clean: bool = True, cluster_id: str = CLUSTER) -> None:
        port = 9000 + self.membership.broker_id
        self.send(self.membership.registration(cluster_id, "host", port, was_clean=was_clean))

    def closed(self) -> None:
        """The controller has closed the connection."""
        self.is_connected = False

    def disconnect(self) -> None:
        """Lose the connection at both ends."""
        self.is_connected = False
        self.service.lost(self.session)
        self.arriving.clear()
        self.membership.lost()

    def send(self, message: bytes) -> None:
        if self.loses or not self.is_connected:
            return
        try:
            self.service.receive(self.session, message)
            if not self.gathers:
                self.service.decide_proposals()
        except ProtocolError:
            self.is_connected = False
            self.service.lost(self.session)

    def wait(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            if not self.arriving:
                self.disconnect()
                return
            self.membership.receive(self, self.arriving.popleft())

    def probe(self) -> None:
        self.send(to_json({"heartbeat": True}))

    def answered(self) -> None:
        """There is no time here."""

    may_be_fenced = False

    def soon(self, callback: Callable[[], None]) -> None:
        self.soon_calls.append(callback)

    def receive(self) -> list[Json]:
        """Receive all that has arrived; return it."""
        received = []
        while self.arriving:
            message = self.arriving.popleft()
            received.append(from_json(message))
            self.membership.receive(self, message)
        return received

    def say(self, **fields: object) -> None:
        """Send anything."""
        self.send(to_json(fields))


class RefusingStore(MemoryStore):
    """Refuses everything with `error`, if there is one; else it notes it."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.saved: list[Delta] = []

    def save(self, delta: Delta) -> None:
        if self.error is not None:
            raise self.error
        self.saved.append(delta)

    def save_producer_ids(self, next_id: int) -> None:
        if self.error is not None:
            raise self.error


class RemoteCluster:
    """Three brokers that take part, and their controller."""

    def __init__(self, brokers: int = 3) -> None:
        self.store = RefusingStore()
        self.controller = Controller(self.store.load(), store=self.store)
        ids = range(1, brokers + 1)
        self.deposed = 0
        self.service = ControllerService(self.controller, CLUSTER, ids, self._deposed)
        self.brokers = {broker_id: RemoteBroker(self.service, broker_id) for broker_id in ids}

    def _deposed(self) -> None:
        self.deposed += 1

    def start(self) -> "RemoteCluster":
        for broker in self.brokers.values():
            broker.register()
        self.receive()
        return self

    def receive(self) -> None:
        for broker in self.brokers.values():
            broker.receive()
