"""Election: registers a broker in ZooKeeper, takes part in the election of the controller, and finds its address.

The broker whose session has created `/controller` is the controller, until that znode ends: with the session, when the
broker resigns, or when an operator deletes it. Each controller raises `/controller_epoch` in the same step. Source:
KafkaController.elect and KafkaZkClient.registerControllerAndIncrementControllerEpoch of Kafka 3.9.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.clock import wall_ns
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.zookeeper import cluster_znodes as znodes
from kafka_offsets.zookeeper.cluster_changes import ControllerTerm
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.cluster_znodes import Address, Endpoints
from kafka_offsets.zookeeper.operations import Operation, UnavailableError, names_of
from kafka_offsets.zookeeper.requests import (
    ANY_VERSION,
    Children,
    Create,
    Delete,
    Get,
    Multi,
    SessionState,
    SetData,
    Sync,
    Watch,
    Znode,
)

_RETRY_SECONDS = 1.0
_ATTEMPTS = 20
"""How often a znode is written again that others change at the same time."""

logger = new_logger(__name__)


class View(NamedTuple):
    """What a broker sees in ZooKeeper.

    is_registered  whether the broker is registered in its session; another process may still be
    controller     -1 for none
    address        where the controller serves the metadata, None while that is not known
    term           of this broker, if it is the controller
    live           the registered brokers, if it is the controller
    """

    is_registered: bool
    controller: int = -1
    address: Address | None = None
    term: ControllerTerm | None = None
    live: frozenset[int] = frozenset()


# -- operations


def join(new_cluster_id: str) -> Operation[str]:
    """Create what every cluster has; return the id of the cluster. Raises StorageError if that cannot be read."""
    yield [Multi((Create(path, b""),)) for path in znodes.PARENTS]
    yield [
        Multi((Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(new_cluster_id)),)),
        Multi((Create(znodes.CONTROLLER_EPOCH, b"0"),)),
    ]
    yield [Sync(znodes.CLUSTER_ID)]
    return (yield from _cluster_id())


def _cluster_id() -> Operation[str]:
    (znode,) = yield [Get(znodes.CLUSTER_ID)]
    if not isinstance(znode, Znode):
        raise StorageError("this znode is missing", f"ZooKeeper: {znodes.CLUSTER_ID}")
    try:
        return znodes.decode_cluster_id(znode.data)
    except ValueError as error:
        raise StorageError(str(error), f"ZooKeeper: {znodes.CLUSTER_ID}") from error


def register(broker_id: int, data: bytes, session_id: int, watch: Watch) -> Operation[bool]:
    """Register a broker; False while it is registered in another session, whose end calls `watch`."""
    path = znodes.broker_path(broker_id)
    for _ in range(_ATTEMPTS):
        (znode,) = yield [Get(path, watch)]
        if not isinstance(znode, Znode):
            yield [Multi((Create(path, data, is_ephemeral=True),))]
            continue
        if znode.owner != session_id:
            return False
        if znode.data == data:
            return True
        yield [Multi((SetData(path, data, znode.version),))]
    raise StorageError("this znode cannot be written", f"ZooKeeper: {path}")


def elect(broker_id: int, session_id: int, watch: Watch) -> Operation[ControllerTerm | int]:
    """Return the controller, or the term of this broker if it was elected; `watch` is called at its end.

    Raises StorageError for znodes that cannot be understood.
    """
    for _ in range(_ATTEMPTS):
        controller, epoch = yield [Get(znodes.CONTROLLER, watch), Get(znodes.CONTROLLER_EPOCH)]
        if not isinstance(epoch, Znode):
            raise StorageError("this znode is missing", f"ZooKeeper: {znodes.CONTROLLER_EPOCH}")
        try:
            number = int(epoch.data)
            if isinstance(controller, Znode):
                if controller.owner == session_id:
                    return ControllerTerm(broker_id, number, epoch.version)
                return znodes.decode_controller(controller.data)
        except ValueError as error:
            raise StorageError(str(error), f"ZooKeeper: {znodes.CONTROLLER}") from error
        data = znodes.encode_controller(broker_id, wall_ns() // 1_000_000)
        yield [
            Multi(
                (
                    Create(znodes.CONTROLLER, data, is_ephemeral=True),
                    SetData(znodes.CONTROLLER_EPOCH, b"%d" % (number + 1), epoch.version),
                )
            )
        ]
    raise StorageError("this znode cannot be written", f"ZooKeeper: {znodes.CONTROLLER}")


def read_view(
    cluster_id: str, broker_id: int, registration: bytes, session_id: int, watch: Watch
) -> Operation[View]:
    """Register, take part in the election, and return the view; `watch` is called when it changes.

    Raises StorageError if this is not ZooKeeper of the cluster: to follow an empty one is to delete all topics.
    """
    if (found_id := (yield from _cluster_id())) != cluster_id:
        raise StorageError(
            f"it is of cluster {found_id}, not {cluster_id}", f"ZooKeeper: {znodes.CLUSTER_ID}"
        )
    if not (yield from register(broker_id, registration, session_id, watch)):
        return View(is_registered=False)
    elected = yield from elect(broker_id, session_id, watch)
    controller = elected.broker_id if isinstance(elected, ControllerTerm) else elected
    (node,) = yield [Get(znodes.broker_path(controller), watch)]
    try:
        address = znodes.decode_metadata_address(node.data) if isinstance(node, Znode) else None
    except ValueError as error:
        raise StorageError(str(error), f"ZooKeeper: {znodes.broker_path(controller)}") from error
    if not isinstance(elected, ControllerTerm):
        return View(is_registered=True, controller=controller, address=address)
    (names,) = yield [Children(znodes.BROKER_IDS, watch)]
    live = frozenset(int(name) for name in names_of(names) if name.isdigit())
    return View(is_registered=True, controller=controller, address=address, term=elected, live=live)


def resign(term: ControllerTerm) -> Operation[None]:
    """End a term, if it has not ended yet."""
    yield [Multi((term.check, Delete(znodes.CONTROLLER, ANY_VERSION)))]


# -- their owner


class Election:
    """One broker's part in the election; everything happens in the thread of the session.

    on_view  called with what the broker sees, after each change
    """

    def __init__(
        self,
        session: ClusterSession,
        cluster_id: str,
        broker_id: int,
        endpoints: Endpoints,
        on_view: Callable[[View], None],
    ) -> None:
        self._session, self._cluster_id, self._broker_id = session, cluster_id, broker_id
        self._endpoints, self._on_view = endpoints, on_view
        self._started_ms = wall_ns() // 1_000_000
        self._view = View(is_registered=False)
        self._is_looking = self._must_poll = self._is_due = self._is_stopped = False
        self._was_reported, self._reported = False, ""

    def poll(self) -> None:
        """See what ZooKeeper has now."""
        self._must_poll = True
        if self._is_looking or self._is_stopped:
            return
        self._is_looking, self._must_poll = True, False
        registration = znodes.encode_broker(self._endpoints, self._started_ms)
        session_id = self._session.session_id
        reading = read_view(self._cluster_id, self._broker_id, registration, session_id, self.poll)
        self._session.begin(reading, self._looked)

    def _looked(self, outcome: View | Exception) -> None:
        self._is_looking = False
        if self._is_stopped:
            return
        if isinstance(outcome, UnavailableError):
            # When the connection was lost, `changed` looks again, or has done so in vain. An answer that takes too long
            # changes no state.
            if self._must_poll:
                self.poll()
            else:
                self._poll_later()
            return
        if isinstance(outcome, Exception):
            if str(outcome) != self._reported:
                self._reported = str(outcome)
                logger.error("broker %d cannot take part in the cluster: %s", self._broker_id, outcome)
            self._poll_later()
            return
        if not outcome.is_registered and not self._was_reported:
            logger.warning(
                "another session with ZooKeeper is broker %d; waiting for its end", self._broker_id
            )
        self._was_reported, self._reported = not outcome.is_registered, ""
        if outcome != self._view:
            self._see(outcome)
        if self._must_poll:
            self.poll()

    def _poll_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._session.later(_RETRY_SECONDS, self._poll_again)

    def _poll_again(self) -> None:
        self._is_due = False
        self.poll()

    def _see(self, view: View) -> None:
        before = self._view
        if before.term not in (None, view.term):
            self._endpoints = self._endpoints._replace(metadata=None)
            self._must_poll = True  # the registration still has the address of the former term
            if view.term is not None:
                view = view._replace(address=None)
        self._view = view
        if view.is_registered and not before.is_registered:
            logger.info("broker %d is registered in ZooKeeper", self._broker_id)
        if view.controller != before.controller and view.controller >= 0:
            logger.info("broker %d is the controller", view.controller)
        self._on_view(view)

    def changed(self, state: SessionState) -> None:
        """Record that the state of the session has changed."""
        if state is SessionState.CONNECTED:
            self.poll()
        elif state is SessionState.DISCONNECTED:
            logger.warning(
                "ZooKeeper cannot be reached: this broker serves what it has, and the metadata cannot change"
            )
        else:
            logger.warning(
                "the session with ZooKeeper has expired: broker %d registers again", self._broker_id
            )
            self._see(View(is_registered=False))

    def announce(self, term: ControllerTerm, metadata: Address) -> None:
        """Register the address where this broker serves the metadata in a term, unless that has ended."""
        if self._view.term == term:
            self._endpoints = self._endpoints._replace(metadata=metadata)
            self.poll()

    def resign(self, term: ControllerTerm) -> None:
        """Have another controller elected, perhaps this broker again, unless this term has ended already."""
        if self._is_stopped or self._view.term != term:
            return
        self._endpoints = self._endpoints._replace(metadata=None)
        self._session.begin(resign(term), lambda outcome: self._resigned(term, outcome))

    def _resigned(self, term: ControllerTerm, outcome: Exception | None) -> None:
        """See which broker is the controller now; after an error try again: `/controller` is still this broker's."""
        if outcome is None:
            self.poll()
            return
        if not isinstance(outcome, UnavailableError):
            logger.error("broker %d cannot resign as the controller: %s", self._broker_id, outcome)
        self._session.later(_RETRY_SECONDS, lambda: self.resign(term))

    def stop(self) -> None:
        """Look no longer."""
        self._is_stopped = True
