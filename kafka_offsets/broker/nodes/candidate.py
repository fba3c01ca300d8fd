"""Candidate: one broker's part in the election of a controller, and the controller while this broker is elected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.nodes.elected_controller import ElectedController
from kafka_offsets.zookeeper.cluster_changes import ControllerTerm
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.cluster_znodes import Address, Endpoints
from kafka_offsets.zookeeper.election import Election, View

_RETRY_SECONDS = 1.0


class Candidate:
    """Takes part in the election from `start` to `stop`, on the event loop of its broker.

    endpoints   where peers reach this broker; the metadata is advertised at the host of the first listener
    listens_at  where it serves the metadata while it is the controller; port 0 takes a free one each time
    on_view     called with each change of `view`
    security    as in `ElectedController`
    controller  of the last term of this broker, None before the first
    """

    view = View(is_registered=False)

    def __init__(
        self,
        session: ClusterSession,
        cluster_id: str,
        config: Config,
        endpoints: Endpoints,
        listens_at: Address,
        on_view: Callable[[], None],
        security: InterBrokerSecurity | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session, self._cluster_id, self._config = session, cluster_id, config
        self._host, self._listens_at, self._on_view = endpoints.first[0], listens_at, on_view
        self._security = security
        self._registered = asyncio.Event()
        self._is_ending = False
        self.controller: ElectedController | None = None

        def seen(view: View) -> None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._see, view)

        self._election = Election(session, cluster_id, config.node_id, endpoints, seen)

    async def start(self) -> None:
        """Return when this broker is registered in ZooKeeper."""
        self._session.on_state = self._election.changed
        self._session.call(self._election.poll)
        await self._registered.wait()

    def _see(self, view: View) -> None:
        """Begin or end a term as the controller, and report the change."""
        if self._is_ending:
            return
        self.view = view
        if view.is_registered:
            self._registered.set()
        current = self.controller
        if current is not None and current.term == view.term:
            current.saw(view.live)
        else:
            if current is not None:
                current.stop()
            if view.term is not None:
                self.controller = self._begin_term(view.term)
                self.controller.start(view.live, current)
        self._on_view()

    def _begin_term(self, term: ControllerTerm) -> ElectedController:
        elected, session = self._election, self._session

        def serving(port: int) -> None:
            session.call(lambda: elected.announce(term, (self._host, port)))

        def end() -> None:
            """Let another broker try; if it is this one again, not at once."""
            session.call(lambda: session.later(_RETRY_SECONDS, lambda: elected.resign(term)))

        return self.new_controller(term, serving, end)

    def new_controller(
        self, term: ControllerTerm, on_serving: Callable[[int], None], on_end: Callable[[], None]
    ) -> ElectedController:
        """Return what serves the metadata in a term."""
        return ElectedController(
            self._session,
            term,
            self._cluster_id,
            self._config,
            self._listens_at,
            on_serving,
            on_end,
            self._security,
        )

    def end(self) -> None:
        """Begin no other term: this broker is about to stop."""
        self._is_ending = True

    async def stop(self) -> None:
        """End the term, if there is one; the session ends afterwards."""
        self._election.stop()
        if self.controller is not None:
            self.controller.stop()
            await asyncio.to_thread(self.controller.join)
