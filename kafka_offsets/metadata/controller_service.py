"""Controller service: the brokers of other processes that a controller decides for, each on a connection of its own.

Messages are JSON objects, and each is one of these, with the fields that are named:

    broker      {"register": {"id", "host", "port", "listeners", "was_clean", "incarnation", "cluster_id"}}   the first
                {"request": name, "number", …}    see `remote_requests`
                {"leave": true}                   stops in order: others lead what it has led
                {"heartbeat": true}
    controller  {"image": IMAGE}                  the response to a registration: the broker takes part
                {"delta": DELTA}                  a change, before the response to the request that has caused it
                {"answer": number, …} or {"answer": number, "failed": "why nothing has changed"}
                {"left": true}                    the broker leads nothing any longer
                {"refused": "why"}                before the connection closes; an unregistered broker closes it
                {"heartbeat": true}

The service knows no sockets and no time: an owner passes messages to it, sends what it is given, reports what was
closed, and decides which broker is silent for too long. Source: BrokerRegistration and BrokerHeartbeat of KIP-631.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.metadata.controller import Controller
from kafka_offsets.metadata.image import Delta, TopicPartition
from kafka_offsets.metadata.json_form import (
    Fields,
    Json,
    decode_listeners,
    encode_delta,
    encode_image,
    from_json,
    to_json,
)
from kafka_offsets.metadata.remote_requests import EXECUTES, proposal_of
from kafka_offsets.metadata.store import AnotherControllerError
from kafka_offsets.replication.elections import IsrProposal

_MOST_ID = 1 << 31
_HEARTBEAT = to_json({"heartbeat": True})


class BrokerSession:
    """One connection of a broker.

    send       sends a message, in order
    close      closes the connection; `ControllerService.lost` need not be called then
    broker_id  None until it is registered, and after it has left
    takes_part  whether it has received the image
    """

    def __init__(self, send: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self.send, self.close = send, close
        self.broker_id: int | None = None
        self.takes_part = False


class _Proposed(NamedTuple):
    """In-sync replicas that a broker has proposed, with the number of its request."""

    session: BrokerSession
    number: int
    topic_partition: TopicPartition
    proposal: IsrProposal


class ControllerService:
    """Serves a controller to brokers.

    Proposals of in-sync replicas wait until `decide_proposals`, which the owner calls when it has received everything
    that has arrived: a broker that returns is added to hundreds of them, and each change costs a write of the store.

    controller   decides; the service alone changes its image
    cluster_id   brokers of another cluster are refused
    awaited      brokers that must register before any of them takes part: a cluster that starts places replicas on
                 all of them, and knows who may lead
    on_deposed   called once when the store says that another controller decides: every connection is closed then
    is_patient   whether a broker whose connection closes has until the next `fence_absent` to come back
    """

    def __init__(
        self,
        controller: Controller,
        cluster_id: str,
        awaited: Collection[int] = (),
        on_deposed: Callable[[], None] = lambda: None,
    ) -> None:
        self.controller = controller
        self._cluster_id = cluster_id
        self._awaited = set(awaited)
        self._on_deposed = on_deposed
        self.is_patient = False
        self._is_deposed = False
        self._sessions: dict[int, BrokerSession] = {}
        self._incarnations: dict[int, str] = {}
        self._proposals: list[_Proposed] = []
        self._absent = {broker.id for broker in controller.image.brokers.by_id.values() if broker.is_up}

    @property
    def is_complete(self) -> bool:
        """Whether all brokers have registered that are awaited."""
        return not self._awaited

    @property
    def has_absent(self) -> bool:
        """Whether brokers are up in the image that have no connection."""
        return bool(self._absent)

    def receive(self, session: BrokerSession, message: bytes) -> None:
        """Decide a message. Raises ProtocolError if it is none: the owner closes the connection and calls `lost`."""
        if self._is_deposed:
            session.close()
            return
        try:
            self._receive(session, Fields(from_json(message), "message"))
        except AnotherControllerError:
            self._step_down()
            session.close()  # it may not be registered yet
        except ValueError as error:
            session.send(to_json({"refused": str(error)}))
            raise ProtocolError(str(error)) from error

    def _receive(self, session: BrokerSession, fields: Fields) -> None:
        if "heartbeat" in fields:
            session.send(_HEARTBEAT)
            return
        if session.takes_part and session.broker_id is not None and fields.get("request") == "alter_isr":
            proposed = proposal_of(session.broker_id, fields)
            self._proposals.append(_Proposed(session, fields.number("number", 0), *proposed))
            return
        self._decide_proposals()
        if "register" in fields:
            if session.broker_id is not None:
                raise ValueError("this connection is registered already")
            self._register(session, Fields(fields.value("register"), "registration"))
        elif session.broker_id is None or not session.takes_part:
            raise ValueError("the broker of this connection takes no part in the cluster")
        elif "request" in fields:
            self._execute(session, session.broker_id, fields)
        elif "leave" in fields:
            self._leave(session, session.broker_id)
        else:
            raise ValueError("message: it is of no known kind")

    # -- brokers

    def _register(self, session: BrokerSession, fields: Fields) -> None:
        broker_id = fields.number("id", 0, _MOST_ID)
        incarnation, cluster_id = fields.text("incarnation"), fields.text("cluster_id")
        if cluster_id != self._cluster_id:
            raise ValueError(f"broker {broker_id} belongs to cluster {cluster_id}, not {self._cluster_id}")
        is_known = self._incarnations.get(broker_id) == incarnation
        other = self._sessions.get(broker_id)
        if other is not None:
            if not is_known:
                raise ValueError(f"another process is broker {broker_id} already")
            other.close()  # the same process has connected again: it serves what it has served
            self._forget(other, broker_id)
        host, port = fields.text("host"), fields.number("port", 1, 1 << 16)
        listeners, was_clean = decode_listeners(fields), fields.flag("was_clean")
        try:
            if is_known:
                delta = self.controller.unfence(broker_id)
            else:
                delta = self.controller.register(
                    broker_id, host, port, was_clean=was_clean, listeners=listeners
                )
        except AnotherControllerError:
            raise
        except StorageError as error:  # the broker tries again
            raise ValueError(str(error)) from error
        self._incarnations[broker_id] = incarnation
        session.broker_id = broker_id
        self._sessions[broker_id] = session
        self._absent.discard(broker_id)
        self._awaited.discard(broker_id)
        self._publish(delta)
        if not self._awaited:
            self._admit(waiting for waiting in self._sessions.values() if not waiting.takes_part)

    def _admit(self, sessions: Iterable[BrokerSession]) -> None:
        message = to_json({"image": encode_image(self.controller.image)})
        for session in list(sessions):
            session.takes_part = True
            session.send(message)

    def _leave(self, session: BrokerSession, broker_id: int) -> None:
        """Let other brokers lead what a broker leads; it receives that, too, and then stops."""
        try:
            self._publish(self.controller.fence(broker_id))
        except AnotherControllerError:
            raise
        except StorageError:
            self._absent.add(broker_id)  # it is gone anyway
        self._forget(session, broker_id)
        session.send(to_json({"left": True}))

    def _forget(self, session: BrokerSession, broker_id: int) -> None:
        del self._sessions[broker_id]
        session.broker_id, session.takes_part = None, False

    def lost(self, session: BrokerSession) -> None:
        """Record that a connection was closed: others lead what its broker has led."""
        broker_id = session.broker_id
        if broker_id is None or self._sessions.get(broker_id) is not session:
            return
        self.decide_proposals()
        if self._is_deposed:  # by that: no session remains
            return
        self._forget(session, broker_id)
        self._absent.add(broker_id)
        if not self.is_patient:
            self.fence_absent([broker_id])

    def fence_absent(self, broker_ids: Collection[int] | None = None) -> list[StorageError]:
        """Fence the brokers that are up in the image and have no connection, or those of `broker_ids` among them.

        Returns what the store has refused: such a broker remains absent, for the next call.
        """
        refused = []
        for broker_id in self._absent & (self._absent if broker_ids is None else {*broker_ids}):
            if self._is_deposed:
                break
            try:
                delta = self.controller.fence(broker_id)
            except AnotherControllerError:
                self._step_down()
            except StorageError as error:
                refused.append(error)
            else:
                self._absent.discard(broker_id)
                self._publish(delta)
        return refused

    def _step_down(self) -> None:
        """Close all connections: another controller decides. The brokers look for it."""
        if self._is_deposed:
            return
        self._is_deposed = True
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()
        self._on_deposed()

    # -- requests

    def _execute(self, session: BrokerSession, broker_id: int, fields: Fields) -> None:
        number, name = fields.number("number", 0), fields.text("request")
        if name not in EXECUTES:
            raise ValueError(f"message: there is no request {name!r}")
        response: Json
        try:
            response, delta = EXECUTES[name](self.controller, broker_id, fields)
        except AnotherControllerError:
            raise
        except StorageError as error:
            response, delta = {"failed": str(error)}, Delta()
        self._publish(delta)
        session.send(to_json({"answer": number, **response}))

    @property
    def has_proposals(self) -> bool:
        """Whether `decide_proposals` has something to do."""
        return bool(self._proposals)

    def decide_proposals(self) -> None:
        """Decide the in-sync replicas that brokers have proposed since the last call, in one change."""
        try:
            self._decide_proposals()
        except AnotherControllerError:
            self._step_down()

    def _decide_proposals(self) -> None:
        proposed, self._proposals = self._proposals, []
        if not proposed or self._is_deposed:
            return
        responses: list[Json]
        try:
            errors, delta = self.controller.alter_isrs(
                (isr_proposal.topic_partition, isr_proposal.proposal) for isr_proposal in proposed
            )
            responses = [{"error": error} for error in errors]
        except AnotherControllerError:
            raise
        except StorageError as error:
            responses, delta = [{"failed": str(error)}] * len(proposed), Delta()
        self._publish(delta)
        for isr_proposal, response in zip(proposed, responses, strict=True):
            if isr_proposal.session.takes_part:
                isr_proposal.session.send(to_json({"answer": isr_proposal.number, **response}))

    def elect_preferred_leaders(self) -> None:
        """Let the first replica of each partition lead it, if that is in sync. Raises StorageError."""
        topic_partitions = [placed.topic_partition for placed in self.controller.image.placed()]
        try:
            self._decide_proposals()
            _, delta = self.controller.elect(topic_partitions)
            self._publish(delta)
        except AnotherControllerError:
            self._step_down()
            raise

    def _publish(self, delta: Delta) -> None:
        """Send a change to every broker that takes part, also to one that was unregistered and runs, as in Kafka."""
        if not delta:
            return
        message = to_json({"delta": encode_delta(delta)})
        for session in list(self._sessions.values()):
            if session.takes_part:
                session.send(message)
