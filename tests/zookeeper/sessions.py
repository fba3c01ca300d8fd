"""The session of a broker with a real server, as a test ends it."""

from typing import Any

from kazoo.client import KazooClient

from kafka_offsets import Broker


def kazoo_of(broker: Broker) -> Any:
    """Return the kazoo client of an embedded broker."""
    server = broker._server
    assert server is not None
    manager: Any = server.core.offset_manager
    return manager._session._client._client


def expire_session(broker: Broker) -> None:
    """Expire the broker's session: another client takes it over, and ends it."""
    kazoo = kazoo_of(broker)
    hosts = ",".join(f"{host}:{port}" for host, port in kazoo.hosts)
    other = KazooClient(hosts, client_id=kazoo.client_id)
    other.start()
    other.stop()
    other.close()
