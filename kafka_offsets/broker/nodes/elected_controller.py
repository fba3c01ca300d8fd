"""Elected controller: the controller of a cluster over ZooKeeper while this broker's term lasts, in its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import usable_configs
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint
from kafka_offsets.broker.nodes.controller_login import BrokerLogins
from kafka_offsets.errors import ConfigError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.controller import Controller
from kafka_offsets.metadata.controller_service import ControllerService
from kafka_offsets.zookeeper.cluster_changes import ControllerTerm
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.cluster_store import ZooKeeperStore
from kafka_offsets.zookeeper.cluster_znodes import topic_config_path

_BITS_OF_REGISTRATIONS = 31
"""A broker epoch is the controller's epoch and the number of a registration in its term: it is never used again."""

logger = new_logger(__name__)


class ElectedController:
    """Loads what ZooKeeper has, and serves the metadata to all brokers until `stop`.

    host, port   where it listens; port 0 takes a free one
    on_serving   called with the port, in this thread
    on_end       called in this thread if its term cannot begin, or has ended
    security     of its connections, with the certificates of the broker as they are now; None: as configured
    Brokers that are up in the metadata have the session timeout to come back. Those that are not registered in
    ZooKeeper either are fenced at once.
    """

    def __init__(
        self,
        session: ClusterSession,
        term: ControllerTerm,
        cluster_id: str,
        config: Config,
        address: tuple[str, int],
        on_serving: Callable[[int], None],
        on_end: Callable[[], None],
        security: InterBrokerSecurity | None = None,
    ) -> None:
        self._session, self.term, self._cluster_id, self._config = session, term, cluster_id, config
        self._address, self._on_serving, self._on_end = address, on_serving, on_end
        self._security = security
        self._live: Collection[int] = ()
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._service: ControllerService | None = None
        self._thread: threading.Thread

    def start(self, live: Collection[int], previous: ElectedController | None) -> None:
        """Begin the term.

        live      the brokers that are registered in ZooKeeper
        previous  the last controller in this process, whose end is awaited first
        """
        self._live = live
        self.start_thread(lambda: self._run(previous))

    def start_thread(self, main: Callable[[], None]) -> None:
        """Call `main` in a thread of its own."""
        self._thread = threading.Thread(target=main, name="kafka-offsets-controller", daemon=True)
        self._thread.start()

    def saw(self, live: Collection[int]) -> None:
        """Record which brokers are registered in ZooKeeper now."""
        self._live = live
        self._call(self._fence_gone)

    def stop(self) -> None:
        """Begin to end; no broker is fenced by that."""
        self._is_stopped = True
        self._call(self._ended.set)

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _call(self, call: Callable[[], None]) -> None:
        """Call in this thread, if it runs."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(call)

    # -- in the thread

    def _run(self, previous: ElectedController | None) -> None:
        if previous is not None:
            previous.join()
        try:
            self.run_loop(self._serve())
        except (StorageError, ConfigError, OSError) as error:
            logger.error("broker %d cannot be the controller: %s", self.term.broker_id, error)
            self._on_end()
        except Exception:  # a defect: else this broker would keep `/controller` and serve nothing
            logger.exception("broker %d cannot be the controller", self.term.broker_id)
            self._on_end()

    def run_loop(self, main: Coroutine[object, object, None]) -> None:
        """Return when `main` has ended, on an event loop of this thread."""
        asyncio.run(main)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._is_stopped:
            return
        store = ZooKeeperStore(self._session, self.term)
        image = store.load()
        for topic in image.topics.values():
            for reason in usable_configs(topic.configs)[1]:
                path = topic_config_path(topic.name)
                logger.error("ZooKeeper: %s: a configuration without effect: %s", path, reason)
        controller = Controller(
            image,
            self._config.min_insync_replicas,
            store,
            self.term.broker_id,
            self.term.epoch << _BITS_OF_REGISTRATIONS,
        )
        self._service = ControllerService(controller, self._cluster_id, on_deposed=self._deposed)
        security = self._security or InterBrokerSecurity(self._config)
        logins = BrokerLogins(self._config, security, lambda: controller.image.settings)
        endpoint = ControllerEndpoint(self._service, self._config.broker_session_timeout_ms, logins)
        host, port = self._address
        try:
            self._on_serving(await endpoint.start(host, port))
            logger.info(
                "broker %d serves the metadata, in controller epoch %d", self.term.broker_id, self.term.epoch
            )
            self._fence_gone()
            await self._ended.wait()
        finally:
            await endpoint.stop()

    def _fence_gone(self) -> None:
        if self._service is None:
            return
        up = self._service.controller.image.live
        for error in self._service.fence_absent(up - frozenset(self._live)):
            logger.error("a broker that is gone cannot be fenced: %s", error)

    def _deposed(self) -> None:
        logger.warning(
            "broker %d no longer decides in controller epoch %d", self.term.broker_id, self.term.epoch
        )
        self._ended.set()
        self._on_end()
