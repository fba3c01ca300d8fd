"""Forwarding: a broker passes commits, fetches and deletions of offsets on to the coordinator of their group.

Only with `offsets.forward`. The request goes in an Envelope, as its client's, and is passed on once: brokers with
different metadata cannot send it in a circle. What is passed on is bounded in number and in time. If the response is
lost, the client gets an error that it retries, because the coordinator may have executed the request.

A client that has given up commits a later offset at another broker: what it has given up must not overwrite that. So
nothing of a closed connection is forwarded, nothing while this broker may have been fenced (it was stopped, and does
not know for how long), and what is not answered in time is withdrawn with its connection to the coordinator, which
decides nothing of a closed connection either. Source: inbuilt offset management, on the broker side of a fetch; offset
API proposal, phase 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kafka_offsets.broker.cluster.envelopes import ENVELOPE_VERSION, sealed, unsealed
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide_for, pass_on
from kafka_offsets.broker.turn.scheduler import Deadline
from kafka_offsets.broker.wire.api import Api, Response
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.membership import ClusterMembership
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.named import GROUP_ID

_MOST_UNDER_WAY = 1000
"""Of each broker: requests that have been passed on, and requests that wait for the controller, together."""

logger = new_logger(__name__)

CoordinatorOf = Callable[[str], int]
"""group -> the broker that coordinates it, -1 for none."""


class Forwarding:
    """The requests that one broker has passed on.

    under_way  how many of them have no response yet
    _waiting   those that wait until the controller has answered, in their order
    """

    def __init__(self, membership: ClusterMembership) -> None:
        self._membership = membership
        self.under_way = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def decide(
        self,
        broker: Context,
        api: Api,
        request: messages.MessageValue,
        context: RequestContext,
        coordinator_of: CoordinatorOf,
    ) -> None:
        """Answer a request with what the coordinators of its groups answer, each for its own groups."""
        forwarded = _Forwarded(self, broker, api, context, coordinator_of)

        def begin() -> None:
            """Pass the request on, unless its client has left or the controller is not reached."""
            if context.connection.has_left:
                return
            if self.may_be_fenced:
                pass_on(broker, context, forwarded.failed(request))
            else:
                forwarded.decide(
                    request, broker.clock.now(), lambda response: pass_on(broker, context, response)
                )

        if self._waiting or self.may_be_fenced:
            if self.has_too_many:
                pass_on(broker, context, forwarded.failed(request))
                return
            self._waiting.append(begin)
            if len(self._waiting) == 1:
                self._membership.when_answering(self._begin_waiting)
        else:
            begin()

    @property
    def has_too_many(self) -> bool:
        """Whether this broker passes on no more for now."""
        return self.under_way + len(self._waiting) >= _MOST_UNDER_WAY

    @property
    def may_be_fenced(self) -> bool:
        """Whether the controller may have fenced this broker, and others may know a later coordinator."""
        return self._membership.may_be_fenced

    def _begin_waiting(self) -> None:
        """Pass on what waits once the controller has answered the last heartbeat, or is not reached."""
        if self._membership.is_reachable and self.may_be_fenced:
            # This was the response to a heartbeat that was sent before the silence.
            self._membership.when_answering(self._begin_waiting)
            return
        waiting, self._waiting = self._waiting, deque()
        for begin in waiting:
            begin()


class _Forwarded:
    """One request on its way to the coordinators of its groups."""

    def __init__(
        self,
        forwarding: Forwarding,
        broker: Context,
        api: Api,
        context: RequestContext,
        coordinator_of: CoordinatorOf,
    ) -> None:
        self._forwarding = forwarding
        self._broker = broker
        self._api = api
        self._context = context
        self._version = context.api_version
        self._coordinator_of = coordinator_of

    def decide(self, request: messages.MessageValue, now: Now, done: Callable[[Response], None]) -> None:
        """Decide the groups of one coordinator after the other; `done` gets the joined answer."""
        named = self._api.named(self._version)
        elsewhere = {
            node_id
            for group in named.ids(request, GROUP_ID)
            if (node_id := self._coordinator_of(group)) != self._broker.node.id
        }
        if not elsewhere:
            self._here(request, now, done)
            return
        node_id = min(elsewhere)
        if not named.keys(request):
            self._there(node_id, request, done)
            return
        part, other_part = named.split_by_key(request, lambda group: self._coordinator_of(group) == node_id)
        if other_part is None:
            self._there(node_id, part, done)
            return

        def answered(response: Response) -> None:
            """Decide the other groups, and join the responses in the order of the request."""
            self.decide(other_part, now, lambda other: done(named.join_by_key(request, response, other)))

        self._there(node_id, part, answered)

    def _here(self, request: messages.MessageValue, now: Now, done: Callable[[Response], None]) -> None:
        decide_for(self._broker, self._api, request, self._context.received_by(request, done), now)

    def _there(self, node_id: int, request: messages.MessageValue, done: Callable[[Response], None]) -> None:
        """Send a request to a coordinator."""
        broker, forwarding = self._broker, self._forwarding
        assert broker.replicas is not None
        connection = self._context.connection
        if node_id < 0 or forwarding.has_too_many:
            done(self.failed(request))
            return
        forwarding.under_way += 1
        deadline: Deadline | None = None

        def end(response: messages.EnvelopeResponse | None) -> None:
            """Take the first of answer, loss and time-out."""
            nonlocal deadline
            if deadline is None:
                return
            deadline.cancel()
            deadline = None
            forwarding.under_way -= 1
            if not connection.closing:
                done(self.failed(request) if response is None else self._answer(node_id, request, response))

        def give_up(now: Now) -> None:
            """Withdraw the request, if the coordinator has not read it yet: the client may send it elsewhere now."""
            assert broker.replicas is not None
            broker.replicas.peers.withdraw(connection, node_id)
            end(None)

        deadline = broker.scheduler.client_timeout(broker.config.offsets_commit_timeout_ms, give_up)
        envelope = sealed(request, self._context)
        broker.replicas.peers.send(node_id, connection, envelope, ENVELOPE_VERSION, end)

    def _answer(
        self, node_id: int, request: messages.MessageValue, response: messages.EnvelopeResponse
    ) -> messages.MessageValue:
        """Return what a coordinator has answered; if it accepts no envelope of this broker, the error of Kafka."""
        try:
            return unsealed(request, self._context, response)
        except ProtocolError as error:
            logger.error("broker %d refuses requests that this broker forwards: %s", node_id, error)
            return self._api.fail(request, ErrorCode.UNKNOWN_SERVER_ERROR, self._version)

    def failed(self, request: messages.MessageValue) -> messages.MessageValue:
        """Return an error that every client retries: of a fetch, consumers before 3.9 retry NOT_COORDINATOR alone."""
        is_fetch = self._api.name == "OffsetFetch"
        error = ErrorCode.NOT_COORDINATOR if is_fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._api.fail(request, error, self._version)
