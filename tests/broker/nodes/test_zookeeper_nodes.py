"""Brokers over a ZooKeeper in memory, in one process: election, failover, and a ZooKeeper that cannot be reached."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.security_keys import STANDARD_AUTHORIZER
from kafka_offsets.broker.nodes.candidate import Candidate
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint
from kafka_offsets.broker.nodes.zookeeper_node import (
    ZooKeeperNode,
    ZooKeeperOptions,
    join_cluster,
    serve_with_zookeeper,
)
from kafka_offsets.client import commits
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.metadata.store import AnotherControllerError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.cluster_znodes import encode_configs
from kafka_offsets.zookeeper.requests import SessionState
from tests.drivers.secured_cluster import Keys
from tests.drivers.zookeeper import MemoryServer, MemoryZooKeeper

DEADLINE_S = 20.0
TOPIC = "orders"


class PostingZooKeeper(MemoryZooKeeper):
    """A client of a server that several threads use; it calls back in the thread of its session."""

    def __init__(self, server: MemoryServer, lock: Any, post: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(server)
        self._lock, self._post = lock, post

    def submit(self, requests, done) -> None:
        with self._lock:
            super().submit(requests, done)

    def disconnect(self, state: SessionState = SessionState.DISCONNECTED) -> None:
        with self._lock:
            super().disconnect(state)

    def close(self) -> None:
        with self._lock:
            super().close()

    def _call(self, function: Callable[[], None]) -> None:
        if not self.is_closed:
            self._post(function)


class Nodes:
    """The brokers that run, with their clients of ZooKeeper; `config` is that of all."""

    def __init__(self, config: Mapping[str, object] = MappingProxyType({})) -> None:
        self._config = config
        self.server, self._lock = MemoryServer(), threading.RLock()
        self.nodes: dict[int, ZooKeeperNode] = {}
        self.clients: dict[int, PostingZooKeeper] = {}
        self.sessions: dict[int, ClusterSession] = {}
        self.files: dict[int, MemoryFiles] = {}

    async def start(self, broker_id: int, **settings: str) -> ZooKeeperNode:
        def new_client(post: Callable[[Callable[[], None]], None]) -> PostingZooKeeper:
            self.clients[broker_id] = PostingZooKeeper(self.server, self._lock, post)
            return self.clients[broker_id]

        config = Config.load(
            {
                "node.id": str(broker_id),
                "default.replication.factor": "3",
                "offsets.topic.num.partitions": "2",
                "replica.fetch.backoff.ms": "20",
                **self._config,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        session = self.sessions[broker_id] = ClusterSession(new_client)
        assert session.start(DEADLINE_S)
        cluster_id = join_cluster(session, config)
        files = self.files.setdefault(broker_id, MemoryFiles())
        node = self.nodes[broker_id] = ZooKeeperNode(config, session, cluster_id, files)
        async with asyncio.timeout(DEADLINE_S):
            await node.start("127.0.0.1", 0)
        return node

    async def stop(self, broker_id: int) -> None:
        await self.nodes.pop(broker_id).stop()
        await asyncio.to_thread(self.sessions.pop(broker_id).stop)

    def candidate(self, broker_id: int) -> Candidate:
        """A broker's part in the election."""
        found = self.nodes[broker_id]._candidate
        assert found is not None
        return found

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return int(self.server.nodes["/controller_epoch"].data)

    @property
    def controller(self) -> int:
        """The broker of the last controller epoch, once all take part in it and know each other; else -1.

        An address is no sign of that: a broker that is elected again has its last one until it serves.
        """
        for broker_id, node in self.nodes.items():
            elected = node._candidate and node._candidate.controller
            if elected is not None and elected.term.epoch == self.epoch and elected._service is not None:
                connected = {
                    each for each, session in elected._service._sessions.copy().items() if session.takes_part
                }
                known = [
                    set(each._membership.image.live) if each._membership.is_reachable else set()
                    for each in self.nodes.values()
                ]
                everyone = set(self.nodes)
                return broker_id if connected == everyone and known.count(everyone) == len(known) else -1
        return -1

    async def ask(self, broker_id: int, request: messages.MessageValue, version: int) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.wrap_future(self.nodes[broker_id].exchange(request, version))

    async def create(self, broker_id: int, name: str, factor: int = -1) -> tuple[int, str]:
        made = messages.CreateTopicsRequest
        answer = await self.ask(broker_id, made([made.CreatableTopic(name, 2, factor)]), 7)
        return answer.topics[0].error_code, str(answer.topics[0].error_message)

    async def commit(self, offset: int) -> None:
        """Commit at whichever broker coordinates the group, as soon as one does."""
        request = commits.request("g", {(TOPIC, 0): offset}, {})

        async def is_committed() -> bool:
            for broker_id in list(self.nodes):
                answer = await self.ask(broker_id, request, commits.VERSION)
                if answer.topics[0].partitions[0].error_code == 0:
                    return True
            return False

        async with asyncio.timeout(DEADLINE_S):
            while not await is_committed():  # noqa: ASYNC110 - real sockets and threads
                await asyncio.sleep(0.01)

    async def committed(self) -> set[int]:
        """Return the offset that the coordinator has."""
        request = messages.OffsetFetchRequest("g", [messages.OffsetFetchRequest.Topic(TOPIC, [0])])
        answers = [await self.ask(broker_id, request, 7) for broker_id in self.nodes]
        return {
            answer.topics[0].partitions[0].committed_offset for answer in answers if not answer.error_code
        }

    def in_sync(self, broker_id: int) -> set[int]:
        """Return the brokers that are in sync for all partitions, as one broker knows it."""
        states = [placed.state for placed in self.nodes[broker_id]._membership.image.placed()]
        return set.intersection(*(set(state.isr) for state in states)) if states else set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - real sockets and threads
            await asyncio.sleep(0.005)


@asynccontextmanager
async def three(config: Mapping[str, object]) -> AsyncIterator[Nodes]:
    nodes = Nodes(config)
    try:
        for broker_id in (1, 2, 3):
            await nodes.start(broker_id)
        await until(lambda: nodes.controller == 1)
        assert await nodes.create(2, TOPIC) == (0, "None")
        await nodes.commit(1)
        await until(lambda: all(nodes.in_sync(each) == {1, 2, 3} for each in nodes.nodes))
        yield nodes
    finally:
        for broker_id in list(nodes.nodes):
            await nodes.stop(broker_id)


Story = Callable[[Nodes], Coroutine[Any, Any, None]]


def play(story: Story, config: Mapping[str, object] = MappingProxyType({})) -> None:
    async def main() -> None:
        async with three(config) as nodes:
            await story(nodes)

    asyncio.run(main())


@pytest.mark.parametrize("lost", ["applied", "dropped"])
def test_a_broker_starts_although_the_connection_is_lost_while_it_joins(lost: str) -> None:
    # It ended with "ZooKeeper does not answer" at the first answer that was lost, long before its time was over.
    def new_client(post: Callable[[Callable[[], None]], None]) -> PostingZooKeeper:
        client = PostingZooKeeper(MemoryServer(), threading.RLock(), post)
        client.lose_next.extend([lost] * 5)
        return client

    session = ClusterSession(new_client)
    try:
        assert session.start(DEADLINE_S)
        config = Config.load({"zookeeper.connection.timeout.ms": int(DEADLINE_S * 1000)})
        assert join_cluster(session, config) == join_cluster(session, config)
    finally:
        session.stop()


def test_the_next_controller_has_what_the_last_one_has_saved() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.stop(1)
        await until(lambda: nodes.controller in (2, 3))
        await nodes.commit(2)
        assert await nodes.committed() == {2}
        assert await nodes.create(3, "later", 2) == (0, "None")
        await nodes.start(1)
        await until(lambda: nodes.in_sync(1) == {2, 3} or nodes.in_sync(1) == {1, 2, 3})
        assert "later" in nodes.nodes[1]._membership.image.topics

    play(story)


@pytest.mark.slow
def test_brokers_and_controllers_authenticate_to_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys = Keys(tmp_path)

    def name_at(address: tuple[str, int]) -> str:
        tls = keys.client().tls
        assert tls is not None
        with tls.wrap_socket(socket.create_connection(address, 10), server_hostname="localhost") as peer:
            return peer.getpeercert()["subject"][0][0][1]

    config = keys.config | {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.users": "broker=hush",
        "sasl.inter.broker.user": "broker",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:broker;User:ANONYMOUS",  # the second one is this process
    }

    async def story(nodes: Nodes) -> None:
        await nodes.stop(1)
        await until(lambda: nodes.controller in (2, 3))
        await nodes.commit(2)
        assert await nodes.committed() == {2}
        address = nodes.nodes[2]._controller_address()
        assert address is not None
        with socket.create_connection(address, 10) as peer:
            peer.sendall(b"plain text")
            await asyncio.to_thread(peer.recv, 100)
        keys.authority.sign("renewed").write_pem(Path(keys.keystore))
        nodes.nodes[nodes.controller].reload_certificates()
        assert await asyncio.to_thread(name_at, address) == "renewed", "also where it serves the metadata"
        registered = json.loads(nodes.server.nodes["/brokers/ids/2"].data)
        assert {each.partition(":")[0] for each in registered["endpoints"]} <= {"SASL_SSL", "CONTROLLER"}

    play(story, config)
    assert "TLS handshake failed" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("which", [1, 2], ids=["of the controller", "of another broker"])
def test_an_expired_session_is_replaced(which: int) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.clients[which].disconnect(SessionState.EXPIRED)
        nodes.clients[which].connect()
        await until(lambda: f"/brokers/ids/{which}" in nodes.server.nodes)
        await until(lambda: nodes.epoch == (2 if which == 1 else 1) and nodes.controller != -1)
        await nodes.commit(2)
        assert await nodes.create(which, "later") == (0, "None")
        await until(lambda: all(nodes.in_sync(each) == {1, 2, 3} for each in nodes.nodes))

    play(story)


def test_a_controller_that_zookeeper_has_given_up_decides_nothing_more() -> None:
    async def story(nodes: Nodes) -> None:
        old = nodes.candidate(1).controller
        nodes.clients[1].disconnect()
        await until(lambda: not nodes.sessions[1].is_connected)
        nodes.server.expire(nodes.clients[1].session_id)
        await until(lambda: {nodes.candidate(each).view.controller for each in (2, 3)} <= {2, 3})
        await until(lambda: all(nodes.candidate(each).view.address is not None for each in (2, 3)))
        await until(
            lambda: all(
                nodes.nodes[each]._link._connected_to == nodes.candidate(each).view.address for each in (2, 3)
            )
        )
        code, message = await nodes.create(1, "refused")
        assert code == ErrorCode.KAFKA_STORAGE_ERROR and "ZooKeeper cannot be reached" in message
        nodes.clients[1].session_id = 0
        nodes.clients[1].connect()
        await until(lambda: nodes.controller in (2, 3))
        assert nodes.candidate(1).controller is old and old is not None
        with pytest.raises(AnotherControllerError, match="another controller is elected"):
            old._service.controller.allocate_producer_ids()
        assert await nodes.create(1, "later") == (0, "None")
        assert "refused" not in nodes.nodes[2]._membership.image.topics

    play(story)


def test_brokers_serve_while_zookeeper_cannot_be_reached() -> None:
    async def story(nodes: Nodes) -> None:
        for client in nodes.clients.values():
            client.disconnect()
        await until(lambda: not any(session.is_connected for session in nodes.sessions.values()))
        code, message = await nodes.create(2, "refused")
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "ZooKeeper cannot be reached, so nothing has changed" in message
        await nodes.commit(2)
        for client in nodes.clients.values():
            client.connect()
        await until(lambda: all(session.is_connected for session in nodes.sessions.values()))
        assert nodes.controller == nodes.epoch == 1
        assert await nodes.create(2, "later") == (0, "None")
        assert await nodes.committed() == {2}

    play(story)


def test_a_change_whose_fate_is_unknown_ends_the_term_and_is_found_by_the_next() -> None:
    async def story(nodes: Nodes) -> None:
        client = nodes.clients[1]
        client.lose_next.append("applied")

        def lose_more(request: object) -> None:
            if not client.lose_next:
                client.before = lambda request: None
                client.disconnect()

        client.before = lose_more
        made = messages.CreateTopicsRequest
        asked = asyncio.ensure_future(nodes.ask(2, made([made.CreatableTopic("unknown", 2, -1)]), 7))
        await until(lambda: not client._is_connected)
        client.connect()
        await asked
        await until(lambda: nodes.epoch == 2 and nodes.controller != -1)
        for node in nodes.nodes.values():
            assert "unknown" in node._membership.image.topics

    play(story)


def test_the_controller_listens_at_the_broker_s_own_address_and_announces_the_advertised_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It tried to listen at the advertised address, which behind NAT or in a container is not one of the machine.
    hosts, start = [], ControllerEndpoint.start

    async def noted(endpoint: ControllerEndpoint, host: str, port: int = 0) -> int:
        hosts.append(host)
        return await start(endpoint, host, port)

    monkeypatch.setattr(ControllerEndpoint, "start", noted)

    async def scenario() -> None:
        nodes = Nodes()
        node = await nodes.start(1, advertised_listeners="PLAINTEXT://localhost:9092")
        assert hosts == ["127.0.0.1"]
        address = node._controller_address()
        assert address is not None and address[0] == "localhost"
        await nodes.stop(1)

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
@pytest.mark.parametrize("settings", [{}, {"advertised.listeners": "PLAINTEXT://:9092"}])
def test_a_broker_that_others_cannot_reach_is_refused(host: str, settings: dict[str, str]) -> None:
    options = ZooKeeperOptions(host, 9092, 0, None, None)
    with pytest.raises(ConfigError, match=r"set advertised\.listeners"):
        serve_with_zookeeper(Config.load({"zookeeper.connect": "127.0.0.1:1", **settings}), options)


def test_an_operator_deletes_the_controller_to_elect_another_one() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.server.delete("/controller")
        await until(lambda: nodes.epoch == 2 and nodes.controller != -1)
        assert await nodes.create(3, "later") == (0, "None")
        await nodes.commit(2)

    play(story)


def test_the_epoch_of_a_removed_broker_is_not_used_again_by_the_next_controller() -> None:
    """The image of the next controller lacks that broker, which had the highest epoch."""

    async def story(nodes: Nodes) -> None:
        def epochs() -> dict[int, int]:
            image = nodes.nodes[1]._membership.image
            return {broker.id: broker.epoch for broker in image.brokers.by_id.values()}

        before = epochs()
        await nodes.stop(3)
        answer = await nodes.ask(2, messages.UnregisterBrokerRequest(3), 0)
        assert answer.error_code == 0
        nodes.server.delete("/controller")
        await until(lambda: nodes.epoch == 2 and nodes.controller != -1)
        await nodes.start(3)
        await until(lambda: 3 in nodes.nodes[1]._membership.image.live)
        registered = set(epochs().items()) - set(before.items())
        assert not {epoch for _, epoch in registered} & set(before.values())
        await until(lambda: all(nodes.in_sync(each) == {1, 2, 3} for each in nodes.nodes))

    play(story)


def test_a_wrong_configuration_in_a_znode_is_reported_and_has_no_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A tool of Kafka, or a person, has written it; the default of the broker applies, and all brokers start."""

    async def story(nodes: Nodes) -> None:
        path = f"/config/topics/{TOPIC}"
        wrong = {"min.insync.replicas": "abc", "of.another.release": "1", "retention.ms": "1000"}
        nodes.server.put(path, encode_configs(wrong))
        nodes.server.delete("/controller")
        await until(lambda: nodes.epoch == 2 and nodes.controller != -1)
        await nodes.stop(3)
        del nodes.files[3]
        await nodes.start(3)
        await nodes.commit(2)
        await until(lambda: all(nodes.in_sync(each) == {1, 2, 3} for each in nodes.nodes))
        for node in nodes.nodes.values():
            topic = node.core.topics.get(TOPIC)
            assert topic is not None
            assert (topic.config.min_insync_replicas, topic.config.retention_ms) == (1, 1000)
        assert await nodes.create(3, "later") == (0, "None")
        await nodes.stop(2)
        await nodes.start(2)
        await nodes.commit(3)

    play(story)
    errors = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    reason = "Invalid value abc for configuration min.insync.replicas: Not a number of type INT"
    assert any(f"ZooKeeper: /config/topics/{TOPIC}: " in error and reason in error for error in errors)
    assert any(error.startswith(f"{TOPIC}: ") and reason in error for error in errors)
    assert any("Unknown topic config name: of.another.release" in error for error in errors)


def test_the_offsets_topic_waits_for_as_many_brokers_as_it_has_replicas() -> None:
    async def main() -> None:
        nodes = Nodes()
        try:
            await nodes.start(1)
            request = messages.FindCoordinatorRequest("g", 0)
            answer = await nodes.ask(1, request, 3)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await nodes.create(1, TOPIC, 3))[0] == ErrorCode.INVALID_REPLICATION_FACTOR
            for broker_id in (2, 3):
                await nodes.start(broker_id)
            await until(lambda: nodes.controller == 1)
            answer = await nodes.ask(1, request, 3)
            assert answer.error_code == 0
        finally:
            for broker_id in list(nodes.nodes):
                await nodes.stop(broker_id)

    asyncio.run(main())


def test_a_topic_with_the_default_number_of_replicas_is_refused_while_there_are_too_few_brokers() -> None:
    async def main() -> None:
        nodes = Nodes()
        try:
            await nodes.start(1)
            code, message = await nodes.create(1, TOPIC)
            assert code == ErrorCode.INVALID_REPLICATION_FACTOR
            assert message.startswith(
                "Unable to replicate the partition 3 time(s): The target replication factor of 3"
            )
            assert "only 1 broker(s) are registered" in message
            made = messages.MetadataRequest
            wanted = made([made.Topic(name=TOPIC)], True)
            metadata = await nodes.ask(1, wanted, 8)
            assert metadata.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for broker_id in (2, 3):
                await nodes.start(broker_id)
            await until(lambda: nodes.controller == 1)
            assert (await nodes.create(1, TOPIC))[0] == 0
            await until(lambda: len(nodes.nodes[2].core.broker.node.broker_ids) == 3)
            made_again = made([made.Topic(name="later")], True)
            await nodes.ask(2, made_again, 8)
            assert "later" in nodes.nodes[2]._membership.image.topics
        finally:
            for broker_id in list(nodes.nodes):
                await nodes.stop(broker_id)

    asyncio.run(main())


def test_brokers_keep_their_topics_when_zookeeper_was_emptied() -> None:
    async def story(nodes: Nodes) -> None:
        for path in [path for path in nodes.server.nodes if path != "/"]:
            nodes.server.delete(path)
        for client in nodes.clients.values():
            client.disconnect(SessionState.EXPIRED)
            client.connect()
        await until(lambda: not any(nodes.candidate(each).view.is_registered for each in nodes.nodes))
        await nodes.commit(2)
        for node in nodes.nodes.values():
            assert node.core.topics.get(TOPIC) is not None

    play(story)
