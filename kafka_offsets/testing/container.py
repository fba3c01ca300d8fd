"""Container: the interface of Testcontainers' `KafkaContainer`, with a broker in this process and without Docker.

A suite changes one import. Source: testcontainers-python, `testcontainers.community.kafka`, and `DockerContainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from kafka_offsets.broker.config.environment import environment_settings
from kafka_offsets.broker.config.images import initial_topics
from kafka_offsets.broker.config.keys import KEYS
from kafka_offsets.broker.config.listeners import OLD_ADDRESSES
from kafka_offsets.testing.broker import Broker

_OF_THE_CONTAINER = (
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    "inter.broker.listener.name",
    "log.dirs",
    "log.dir",
    "zookeeper.connect",
    *OLD_ADDRESSES,
)
"""Keys that say where the broker in a container listens, and where its data is; here the class decides that."""

_CHAINED = (
    "with_command",
    "with_copy_into_container",
    "with_env_file",
    "with_exposed_ports",
    "with_kwargs",
    "with_name",
    "with_network",
    "with_network_aliases",
    "with_tmpfs_mount",
    "with_volume_mapping",
    "maybe_emulate_amd64",
    "waiting_for",
)
_NEED_DOCKER = (
    "copy_from_container",
    "copy_into_container",
    "create_file",
    "exec",
    "get_container_info",
    "get_docker_client",
    "get_logs",
    "get_wrapped_container",
    "tc_start",
    "wait",
)


class KafkaContainer:
    """A broker in this process, with the methods of Testcontainers' class of this name.

    image  and all other parameters of the original are accepted; `port`, `env` and `security_protocol` have an effect
    port   the port inside the container, by which `get_exposed_port` is called
    env    variables such as KAFKA_NUM_PARTITIONS; those for addresses and directories have no effect

    Methods for the container itself, such as `with_network`, return the object and do nothing. Those that need Docker,
    such as `exec`, raise AttributeError. `broker` is the broker, with all methods for tests. A new start begins with an
    empty broker on a new port. ValueError for a security protocol other than PLAINTEXT.
    """

    def __init__(
        self,
        image: str = "kafka-offsets",
        port: int = 9093,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        *,
        env: Mapping[str, str] | None = None,
        **of_docker: Any,
    ) -> None:
        if security_protocol != "PLAINTEXT":
            raise ValueError(f"the security protocol is {security_protocol}: only PLAINTEXT is supported")
        self.image, self.port, self.listener_name = image, port, listener_name
        self.env: dict[str, str] = dict(env or {})
        self.kraft_enabled = True
        self.cluster_id = ""
        self._host_port = 0
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """The broker, with all methods for tests. RuntimeError before `start`."""
        if self._broker is None:
            raise RuntimeError("the broker is not started")
        return self._broker

    # -- before the start ----------------------------------------------------------------------------------

    def with_env(self, key: str, value: str) -> Self:
        """Set a variable, such as KAFKA_NUM_PARTITIONS."""
        self.env[key] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Set several variables."""
        self.env.update(variables)
        return self

    def with_bind_ports(self, container: str | int, host: str | int | None = None) -> Self:
        """Listen on the port `host`, if `container` is the port of Kafka; without it on a free one."""
        if _number(container) == self.port:
            self._host_port = 0 if host is None else _number(host)
        return self

    def with_kraft(self) -> Self:
        """Do nothing: there is no ZooKeeper."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Store the id; the broker has an id of its own."""
        self.cluster_id = cluster_id
        return self

    # -- running -------------------------------------------------------------------------------------------

    def start(self, timeout: int = 30) -> Self:
        """Start the broker; it is ready when this returns. RuntimeError if it is running.

        timeout  has no effect
        Raises ConfigError for a variable with a wrong value, OSError for a port that is taken.
        """
        if self._broker is not None:
            raise RuntimeError("the broker is running")
        variables = {name: str(value) for name, value in self.env.items()}
        settings = environment_settings(variables, KEYS)
        config = {key: value for key, value in settings.items() if key not in _OF_THE_CONTAINER}
        broker = Broker(config, port=self._host_port)
        broker.start()
        for topic in initial_topics(variables):
            broker.create_topic(topic.name, topic.partitions or broker.config.num_partitions, topic.configs)
        self._broker = broker
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop the broker; its data is lost."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def get_bootstrap_server(self) -> str:
        """Return the address for clients, `host:port`."""
        return self.broker.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Return the host for clients."""
        return self.broker.bootstrap_servers.rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """Return the port for clients. ConnectionError for another port than that of Kafka, as in the original."""
        if _number(port) != self.port:
            raise ConnectionError(f"port {port} is not available: Kafka's is {self.port}")
        return int(self.broker.bootstrap_servers.rpartition(":")[2])

    def get_container_id(self) -> str:
        """Return a name for messages; there is no container."""
        return f"kafka-offsets-{self.get_exposed_port(self.port)}"

    @property
    def status(self) -> str:
        """`running`, or `not_started`."""
        return "not_started" if self._broker is None else "running"

    def reload(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name in _CHAINED:
            return lambda *arguments, **options: self
        if name in _NEED_DOCKER:
            raise AttributeError(f"{name} needs Docker, and this broker runs inside the test's process")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _number(port: str | int) -> int:
    """Return the number of a port such as 9093 or "9093/tcp"."""
    return int(str(port).partition("/")[0])
