"""Brokers that a test starts as it needs them. All are stopped together."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, overload

from kafka_offsets.clock import Clock
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.acls import AclBinding
from kafka_offsets.testing.broker import Broker
from kafka_offsets.testing.contents.topics import Topics

if TYPE_CHECKING:
    from kafka_offsets.testing.broker_cluster import Cluster


class BrokerFactory:
    """Starts brokers that record their requests; at the end of its `with`, all of them stop.

    clock    the clock of all brokers; default: the machine's
    started  the brokers, in the order of their start
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.started: list[Broker] = []
        self._clock = clock
        self._running = ExitStack()

    @overload
    def __call__(
        self,
        *,
        topics: Topics | None = None,
        config: Mapping[str, object] | None = None,
        brokers: None = None,
        port: int | None = None,
        data_directory: str | Path | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding] | None = None,
    ) -> Broker: ...

    @overload
    def __call__(
        self,
        *,
        topics: Topics | None = None,
        config: Mapping[str, object] | None = None,
        brokers: int,
        port: int | None = None,
        data_directory: None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding] | None = None,
    ) -> "Cluster": ...

    def __call__(
        self,
        *,
        topics: Topics | None = None,
        config: Mapping[str, object] | None = None,
        brokers: int | None = None,
        port: int | None = None,
        data_directory: str | Path | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding] | None = None,
    ) -> Broker:
        """Start a broker; return it once clients can connect.

        brokers  starts a `Cluster` of so many nodes instead
        The other parameters, and the errors, are those of `Broker`.
        """
        made: Broker
        if brokers is None:
            made = Broker(
                config,
                port=port,
                data_directory=data_directory,
                clock=self._clock,
                users=users,
                record=True,
                acls=acls,
                topics=topics,
            )
        elif data_directory is None:
            from kafka_offsets.testing.broker_cluster import Cluster  # no import cost for single brokers

            made = Cluster(
                config,
                brokers=brokers,
                port=port,
                clock=self._clock,
                users=users,
                record=True,
                acls=acls,
                topics=topics,
            )
        else:
            raise ConfigError("a cluster is in memory: data_directory is for one broker")
        self._running.enter_context(made)
        self.started.append(made)
        return made

    @property
    def clients(self) -> list[str]:
        """The client ids and addresses of the connections that are open now."""
        open_now = [
            client
            for broker in self.started
            if broker._server is not None  # the test has stopped it
            for client in broker._call(
                lambda server: [connection for node in server.servers for connection in node.clients]
            )
        ]
        return [f"{name} at {address}" if name else address for name, address in open_now]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()
