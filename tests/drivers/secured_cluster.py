"""A cluster over sockets in this process: brokers with their controller link, secured by a configuration.

The brokers share a loop, and the controller has one of its own, because a broker that waits for it blocks its loop.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint
from kafka_offsets.broker.nodes.controller_login import BrokerLogins
from kafka_offsets.broker.nodes.node_server import NodeIdentity, NodeServer
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.metadata.controller import Controller as MetadataController
from kafka_offsets.metadata.controller_service import ControllerService
from kafka_offsets.metadata.image import ClusterImage
from kafka_offsets.protocol import messages
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.tls import PROTOCOLS, Store, client_context
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.testing import CertificateAuthority

T = TypeVar("T")

CLUSTER_ID = "cluster"
PATIENCE_S = 60
NODES = (1, 2, 3)


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self.run(call())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Controller:
    """The controller of a cluster without brokers; `with` starts and stops it.

    address  where it serves the metadata
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        self.config = Config.load(config)
        self.image = ClusterImage()

    def __enter__(self) -> Self:
        self._loop = _Loop()
        self.address = "127.0.0.1", self._loop.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._endpoint.stop())
        self._loop.close()

    async def _start(self) -> int:
        service = ControllerService(MetadataController(self.image), CLUSTER_ID, NODES)
        logins = BrokerLogins(self.config, InterBrokerSecurity(self.config), lambda: self.image.settings)
        self._endpoint = ControllerEndpoint(service, self.config.broker_session_timeout_ms, logins)
        return await self._endpoint.start("127.0.0.1")


class SecuredCluster:
    """Three brokers; `with` starts and stops them. All have the same configuration."""

    def __init__(self, config: Mapping[str, object], new_server: type[NodeServer] = NodeServer) -> None:
        self._new_server = new_server
        given = {"default.replication.factor": "3", "offsets.topic.num.partitions": "3"} | dict(config)
        self.config = Config.load(given)
        self._controller = Controller(given)
        self.image = self._controller.image
        self.nodes: dict[int, NodeServer] = {}

    def __enter__(self) -> Self:
        self._controller.__enter__()
        self.controller = self._controller.address
        self._brokers = _Loop()
        try:
            self._brokers.run(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node_id in list(self.nodes):
            self.stop(node_id)
        self._brokers.close()
        self._controller.__exit__()

    async def _start(self) -> None:
        for node_id in NODES:
            identity = NodeIdentity(node_id, CLUSTER_ID, lambda: self.controller)
            self.nodes[node_id] = self._new_server(self.config, identity, MemoryFiles())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(node.start("127.0.0.1", 0) for node in self.nodes.values()))

    def stop(self, node_id: int) -> None:
        """Stop a broker in order."""
        self._brokers.run(self.nodes.pop(node_id).stop())

    def read(self, function: Callable[[NodeServer], T]) -> dict[int, T]:
        """Return what a function returns for each broker, in their loop."""
        return self._brokers.call(lambda: {key: function(node) for key, node in self.nodes.items()})

    def address(self, node_id: int, listener: str = "") -> tuple[str, int]:
        """Where a broker listens."""
        broker = self.image.brokers.by_id[node_id]
        found = broker.address_at(listener)
        assert found is not None
        return found

    def call(
        self,
        node_id: int,
        request: messages.MessageValue,
        version: int,
        security: ClientSecurity = PLAINTEXT,
        listener: str = "",
    ) -> Any:
        """Return the response of one broker to a client."""
        with Connection(*self.address(node_id, listener), PATIENCE_S, security) as connection:
            return connection.call(request, version)


class Keys:
    """Certificates in a folder, and the configuration of brokers that use them."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority()
        self._server = self.authority.sign("broker")
        self.keystore = self._server.write_pem(folder / "broker.pem")
        self.truststore = str(folder / "ca.pem")
        (folder / "ca.pem").write_text(self.authority.certificate_pem, encoding="ascii")
        self.config: dict[str, object] = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keystore,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.truststore,
        }

    def client(
        self,
        user: str | None = None,
        password: str = "",
        mechanism: str = "PLAIN",
        keystore: str | None = None,
    ) -> ClientSecurity:
        """Return how a client connects with TLS, as a user, or with a certificate."""
        tls = client_context(
            Store("PEM", keystore), Store("PEM", self.truststore), PROTOCOLS, checks_name=True
        )
        if user is None:
            return ClientSecurity("SSL", tls, None)
        return ClientSecurity("SASL_SSL", tls, Login(mechanism, user, Secret(password)))
