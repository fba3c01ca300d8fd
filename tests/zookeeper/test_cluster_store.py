"""The metadata of a cluster in ZooKeeper: Kafka's znodes, one controller that writes, and no change in part."""

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator

import pytest

from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import ClusterImage, TopicPartition
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.metadata.store import AnotherControllerError
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.replication.partition_state import NO_LEADER
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.zookeeper import cluster_changes, cluster_znodes, election
from kafka_offsets.zookeeper.cluster_changes import ControllerTerm
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.cluster_store import ZooKeeperStore
from kafka_offsets.zookeeper.kazoo_client import KazooZooKeeper
from kafka_offsets.zookeeper.operations import Operation, RequestRefusedError, UnavailableError
from kafka_offsets.zookeeper.requests import ANY_VERSION, Create, Delete, Get, Multi, SetData, Sync, Znode
from tests.drivers.cluster_session import PlayedSession
from tests.drivers.zookeeper import MemoryServer
from tests.storage.directory.test_client_settings import TOKEN

TOPIC_ID = bytes(range(240, 256))
_numbers = itertools.count(1)


class Cluster:
    """Sessions of one cluster with ZooKeeper, and what a test reads there."""

    def __init__(self, new_session: Callable[[], PlayedSession | ClusterSession]) -> None:
        self._new_session = new_session
        self.sessions: list[PlayedSession | ClusterSession] = []

    def controller(self, broker_id: int = 1) -> Controller:
        """Elect another controller, and return it with what it has loaded."""
        session = self._new_session()
        self.sessions.append(session)
        session.run(election.join("the-cluster"), 20)
        self.ask(Multi((Delete("/controller", ANY_VERSION),)))
        term = session.run(election.elect(broker_id, session.session_id, lambda: None), 20)
        assert isinstance(term, ControllerTerm)
        store = ZooKeeperStore(session, term)
        return Controller(store.load(), store=store)

    def ask(self, *requests):
        def steps() -> Operation[list]:
            return (yield list(requests))

        return self.sessions[-1].run(steps(), 20)

    def json(self, path: str):
        (found,) = self.ask(Get(path))
        return json.loads(found.data) if isinstance(found, Znode) else None

    def loaded(self) -> ClusterImage:
        return self.controller().image


@pytest.fixture(params=["memory", pytest.param("real", marks=[pytest.mark.interop, pytest.mark.slow])])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "memory":
        server = MemoryServer()

        def new_session() -> PlayedSession | ClusterSession:
            session = PlayedSession(server)
            session.start()
            return session
    else:
        address = request.getfixturevalue("zookeeper_server").address
        chroot = f"{address}/store-{os.getpid()}-{next(_numbers)}"

        def new_session() -> PlayedSession | ClusterSession:
            session = ClusterSession(lambda post: KazooZooKeeper(chroot, 6000, post))
            assert session.start(20)
            return session

    made = Cluster(new_session)
    yield made
    for session in made.sessions:
        session.stop()


@pytest.fixture
def memory() -> Cluster:
    server = MemoryServer()

    def new_session() -> PlayedSession:
        session = PlayedSession(server)
        session.start()
        return session

    return Cluster(new_session)


def client_of(cluster: Cluster):
    session = cluster.sessions[-1]
    assert isinstance(session, PlayedSession)
    return session.client


def with_brokers(controller: Controller, count: int = 3) -> Controller:
    for broker_id in range(1, count + 1):
        controller.register(broker_id, "127.0.0.1", 9000 + broker_id)
    return controller


def create(controller: Controller, name: str, *replicas: list[int], **configs: str) -> None:
    topic_id = TOPIC_ID if name == "orders" else os.urandom(16)
    controller.create([PlacedTopic(name, topic_id, replicas, configs)])


def test_a_new_cluster_is_empty(cluster: Cluster) -> None:
    assert cluster.loaded() == ClusterImage()


def test_the_znodes_are_those_of_kafka(cluster: Cluster) -> None:
    controller = with_brokers(cluster.controller())
    create(controller, "orders", [1, 2, 3], [2, 3, 1], **{"retention.ms": "1000"})
    assert cluster.json("/cluster/id") == {"version": "1", "id": "the-cluster"}
    assert cluster.json("/controller_epoch") == 1
    found = cluster.json("/controller")
    assert (found["version"], found["brokerid"]) == (2, 1) and found["timestamp"].isdigit()
    assert cluster.json("/brokers/topics/orders") == {
        "version": 3,
        "topic_id": "8PHy8_T19vf4-fr7_P3-_w",
        "partitions": {"0": [1, 2, 3], "1": [2, 3, 1]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert cluster.json("/config/topics/orders") == {"version": 1, "config": {"retention.ms": "1000"}}
    state = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 3, 1]}
    assert cluster.json("/brokers/topics/orders/partitions/1/state") == state
    controller.fence(2)
    fenced = cluster.json("/brokers/topics/orders/partitions/1/state")
    assert (fenced["leader"], fenced["leader_epoch"], sorted(fenced["isr"])) == (3, 1, [1, 3])
    controller.allocate_producer_ids()
    controller.allocate_producer_ids()
    block = {"version": 1, "broker": 1, "block_start": "1000", "block_end": "1999"}
    assert cluster.json("/latest_producer_id_block") == block
    controller.reassign(TopicPartition("orders", 0), [1, 3, 4])
    moving = cluster.json("/brokers/topics/orders")
    assert (moving["adding_replicas"], moving["removing_replicas"]) == ({"0": [4]}, {"0": [2]})
    controller.delete(["orders"])
    assert cluster.json("/brokers/topics/orders") is cluster.json("/config/topics/orders") is None


def test_settings_are_where_kafka_has_them(cluster: Cluster) -> None:
    controller = cluster.controller()
    quotas = {
        frozenset({("user", "al ice"), ("client-id", None)}): {"producer_byte_rate": 1024.0},
        frozenset({("user", None)}): {"request_percentage": 12.5},
        frozenset({("ip", "10.0.0.1")}): {"connection_creation_rate": 5.0},
        frozenset({("client-id", "a/b*")}): {"consumer_byte_rate": 7.0},
    }
    credentials = {("al ice", 1): ScramCredential(4096, b"salt", b"stored", b"server")}
    reads = AclBinding(
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        Permission.ALLOW,
    )
    acls = (
        reads,
        reads._replace(
            principal="User:*", operation=AclOperation.DESCRIBE_CONFIGS, permission=Permission.DENY
        ),
        reads._replace(resource_type=ResourceType.GROUP, name="a/%", pattern_type=PatternType.PREFIXED),
        reads._replace(resource_type=ResourceType.TRANSACTIONAL_ID, name="*"),
        reads._replace(resource_type=ResourceType.GROUP, name=".."),
    )
    controller.alter_settings(
        ClusterSettings(
            {"g/1": {"consumer.session.timeout.ms": "45000"}},
            quotas,
            credentials,
            dict.fromkeys(acls, True),
            {TOKEN.token_id: TOKEN},
        )
    )

    def config(path: str):
        return cluster.json(path)["config"]

    assert config("/config/groups/g%2F1") == {"consumer.session.timeout.ms": "45000"}
    assert config("/config/users/al%20ice/clients/<default>") == {"producer_byte_rate": "1024"}
    assert config("/config/users/<default>") == {"request_percentage": "12.5"}
    assert config("/config/ips/10.0.0.1") == {"connection_creation_rate": "5"}
    assert config("/config/clients/a%2Fb%2A") == {"consumer_byte_rate": "7"}
    text = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"
    assert config("/config/users/al%20ice") == {"SCRAM-SHA-256": text}
    token = cluster.json(f"/delegation_token/tokens/{TOKEN.token_id}")
    assert token == {"version": 3, **TOKEN.form()}
    alice = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
    everyone = {"principal": "User:*", "permissionType": "Deny", "operation": "DescribeConfigs", "host": "*"}
    assert cluster.json("/kafka-acl/Topic/orders") == {"version": 1, "acls": [everyone, alice]}
    assert cluster.json("/kafka-acl/TransactionalId/*") == {"version": 1, "acls": [alice]}
    assert cluster.json("/kafka-acl-extended/prefixed/Group/a%2F%25") == {"version": 1, "acls": [alice]}
    assert cluster.loaded().settings == controller.image.settings
    removed = ClusterSettings(
        {"g/1": {}},
        {entity: {} for entity in quotas},
        {("al ice", 1): None},
        dict.fromkeys(acls, False),
        {TOKEN.token_id: None},
    )
    cluster.controller().alter_settings(removed)
    assert cluster.loaded().settings == ClusterSettings()


def some_change(rng: random.Random, controller: Controller) -> None:
    """Change anything that can be changed."""
    image = controller.image
    places = [placed.topic_partition for placed in image.placed()]
    kind = rng.choice(
        [
            "register",
            "fence",
            "unfence",
            "create",
            "grow",
            "delete",
            "configure",
            "isr",
            "elect",
            "move",
            "set",
            "ids",
        ]
    )
    broker = rng.randrange(1, 6)
    if kind == "register":
        controller.register(broker, "h", 9000 + rng.randrange(10), was_clean=rng.random() < 0.5)
    elif kind == "fence":
        controller.fence(broker)
    elif kind == "unfence" and broker in image.brokers.by_id:
        controller.unfence(broker)
    elif kind == "create" and image.live:
        name = f"t{rng.randrange(6)}"
        if name not in image.topics:
            count = rng.randrange(1, 4)
            create(controller, name, *(rng.sample(range(1, 6), 3) for _ in range(count)), a=str(rng.random()))
    elif kind == "set":
        values = {} if rng.random() < 0.3 else {"consumer.session.timeout.ms": str(rng.random())}
        entity = frozenset({("user", rng.choice(["u", None])), ("client-id", rng.choice(["c", None]))})
        rates = {} if rng.random() < 0.3 else {"producer_byte_rate": rng.random()}
        controller.alter_settings(ClusterSettings({f"g{rng.randrange(3)}": values}, {entity: rates}))
    elif kind == "ids":
        controller.allocate_producer_ids()
    elif places:
        place = rng.choice(places)
        topic, state = image.topics[place.topic], image.state(*place)
        if kind == "grow":
            controller.grow({topic.name: [rng.sample(range(1, 6), len(state.replicas))]})
        elif kind == "delete":
            controller.delete([topic.name])
        elif kind == "configure":
            controller.configure(topic.name, {"b": str(rng.random())})
        elif kind == "isr" and state.leader != NO_LEADER:
            live = [each for each in state.replicas if each in image.live]
            isr = {state.leader, *rng.sample(live, rng.randrange(len(live) + 1))}
            controller.alter_isr(
                place, IsrProposal(state.leader, state.leader_epoch, state.partition_epoch, tuple(isr))
            )
        elif kind == "elect":
            controller.elect([place], unclean=rng.random() < 0.5)
        elif kind == "move":
            controller.reassign(place, None if rng.random() < 0.3 else rng.sample(range(1, 6), 3))


@pytest.mark.parametrize("seed", range(8))
def test_what_a_controller_has_decided_is_what_the_next_one_loads(memory: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    controller = with_brokers(memory.controller(), 5)
    for number in range(1, 300):
        some_change(rng, controller)
        if number % 20 == 0:
            image = controller.image
            controller = memory.controller(rng.randrange(1, 6))
            assert controller.image == image


def test_a_real_server_returns_what_was_saved(cluster: Cluster) -> None:
    rng = random.Random(1)
    controller = with_brokers(cluster.controller(), 5)
    for _ in range(60):
        some_change(rng, controller)
    assert cluster.loaded() == controller.image


def test_a_partition_that_is_named_twice_elects_its_leader_once(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    create(controller, "orders", [1, 2, 3])
    place = TopicPartition("orders", 0)
    controller.lead(place, 2)
    errors, _ = controller.elect([place, place])
    assert errors == {place: ErrorCode.NONE}
    assert memory.loaded() == controller.image


def test_a_deposed_controller_changes_nothing(cluster: Cluster) -> None:
    first = with_brokers(cluster.controller(1))
    second = cluster.controller(2)
    with pytest.raises(AnotherControllerError, match="another controller is elected"):
        create(first, "orders", [1, 2])
    with pytest.raises(AnotherControllerError):
        first.allocate_producer_ids()
    assert first.image.topics == {} == cluster.loaded().topics
    assert second.image.brokers == first.image.brokers


@pytest.mark.parametrize("fate", ["applied", "dropped"])
def test_a_change_whose_answer_is_lost_is_made_once(memory: Cluster, fate: str) -> None:
    controller = with_brokers(memory.controller())
    client_of(memory).lose_next.append(fate)
    create(controller, "orders", [1, 2, 3])
    client_of(memory).lose_next.append(fate)
    controller.fence(1)
    client_of(memory).lose_next.append(fate)
    controller.allocate_producer_ids()
    client_of(memory).lose_next.append(fate)
    controller.configure("orders", {"a": "1"})
    image = controller.image.copy()
    assert memory.loaded() == image
    controller = memory.controller()
    client_of(memory).lose_next.append(fate)
    controller.delete(["orders"])
    assert memory.loaded().topics == {}


def test_a_change_that_cannot_be_asked_about_ends_the_term(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    client = client_of(memory)
    client.lose_next.append("applied")
    client.before = lambda request: client.disconnect() if isinstance(request, Multi) else None
    with pytest.raises(AnotherControllerError, match="it is unknown whether /"):
        controller.fence(3)
    client.before = lambda request: None
    client.connect()
    with pytest.raises(AnotherControllerError, match="it is unknown whether /"):
        controller.allocate_producer_ids()
    assert controller.image.live == {1, 2, 3}
    assert memory.loaded().live == {1, 2}


def test_a_late_answer_ends_the_term(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    client_of(memory).is_held = True
    with pytest.raises(AnotherControllerError, match="no answer"):
        controller.fence(3)


def test_without_zookeeper_a_change_fails_and_nothing_else(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    client_of(memory).disconnect()
    with pytest.raises(StorageError, match="ZooKeeper cannot be reached, so nothing has changed") as raised:
        controller.fence(3)
    assert not isinstance(raised.value, AnotherControllerError)
    client_of(memory).connect()
    controller.fence(3)
    assert memory.loaded().live == {1, 2}


def test_a_znode_that_another_program_has_changed_ends_the_term(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    create(controller, "orders", [1, 2, 3])
    memory.ask(Multi((SetData("/brokers/topics/orders/partitions/0/state", b"{}", ANY_VERSION),)))
    with pytest.raises(AnotherControllerError, match="another program has changed"):
        controller.fence(1)


def test_many_partitions_change_in_several_requests(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    for number in range(8):
        create(controller, f"t{number}", *([1, 2, 3] for _ in range(1000)))
    client = client_of(memory)
    seen: list[Multi] = []
    client.before = lambda request: seen.append(request) if isinstance(request, Multi) else None
    controller.fence(1)
    assert len(seen) > 1
    assert memory.loaded() == controller.image


def test_a_change_that_is_there_in_part_ends_the_term(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    for number in range(8):
        create(controller, f"t{number}", *([1, 2, 3] for _ in range(1000)))
    client = client_of(memory)
    seen: list[Multi] = []

    def before(request) -> None:
        if isinstance(request, Multi):
            seen.append(request)
            if len(seen) == 2:
                client.lose_next.extend(["dropped"] * 3)

    client.before = before
    with pytest.raises(AnotherControllerError, match="in part"):
        controller.fence(1)
    live = memory.loaded()
    leaders = {placed.state.leader for placed in live.placed()}
    assert leaders == {1, 2}


def test_a_topic_that_does_not_fit_into_one_request_is_refused(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    with pytest.raises(StorageError, match=r"/brokers/topics/wide and .* do not fit into one request"):
        create(controller, "wide", *([1, 2, 3] for _ in range(20_000)))
    assert memory.loaded().topics == {}


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/topics/orders", b"{"),
        ("/brokers/topics/orders", b'{"topic_id": "8PHy8_T19vf4-fr7_P3-_w", "partitions": {"1": [1]}}'),
        ("/brokers/topics/orders/partitions/0/state", b"{}"),
        ("/config/topics/orders", b""),
        ("/latest_producer_id_block", b'{"block_end": "x"}'),
        ("/brokers/registrations", b"[]"),
    ],
)
def test_a_znode_that_cannot_be_understood_is_named(memory: Cluster, path: str, data: bytes) -> None:
    controller = with_brokers(memory.controller())
    create(controller, "orders", [1, 2, 3])
    controller.allocate_producer_ids()
    memory.ask(Multi((SetData(path, data, ANY_VERSION),)))
    with pytest.raises(StorageError, match=f"ZooKeeper: {path}: "):
        memory.controller()


def test_a_missing_znode_is_named(memory: Cluster) -> None:
    controller = with_brokers(memory.controller())
    create(controller, "orders", [1, 2, 3])
    memory.ask(Multi((Delete("/brokers/topics/orders/partitions/0/state", ANY_VERSION),)))
    with pytest.raises(StorageError, match="partitions/0/state: this znode is missing"):
        memory.controller()


def test_settings_that_cannot_be_understood_are_named(memory: Cluster) -> None:
    memory.controller()
    memory.ask(Multi((Create("/config/users/u", b'{"config": {"producer_byte_rate": "fast"}}'),)))
    with pytest.raises(StorageError, match="ZooKeeper: the settings: "):
        memory.controller()


def test_a_part_that_zookeeper_refuses_after_another_one_ends_the_term() -> None:
    term = ControllerTerm(1, 1, 1)
    parts = [Multi((term.check, Create(path, b""))) for path in ("/a", "/b")]
    first = cluster_changes.write(parts, term)
    next(first)
    with pytest.raises(RequestRefusedError):
        first.throw(RequestRefusedError("too large"))
    second = cluster_changes.write(parts, term)
    next(second)
    second.send([(0, 0)])
    with pytest.raises(AnotherControllerError, match="there in part: too large"):
        second.throw(RequestRefusedError("too large"))


def test_names_in_paths_are_those_of_kafkas_sanitizer() -> None:
    entity = frozenset({("user", "a~b c*d/é+")})
    assert cluster_znodes.entity_path(entity) == "/config/users/a%7Eb%20c%2Ad%2F%C3%A9%2B"


def test_a_write_of_the_next_controller_is_not_taken_for_an_own_one_whose_response_was_lost() -> None:
    term = ControllerTerm(1, epoch=1, epoch_version=1)
    path = cluster_znodes.state_path("orders", 0)
    steps = cluster_changes.write([Multi((term.check, SetData(path, b"mine", 0)))], term)
    next(steps)
    assert steps.throw(UnavailableError("the response was lost")) == [Sync(path)]
    assert steps.send([None]) == [Get(path)]
    assert steps.send([Znode(b"theirs", 1, 0, 0)]) == [Get(cluster_znodes.CONTROLLER_EPOCH)]
    with pytest.raises(AnotherControllerError, match="another controller is elected"):
        steps.send([Znode(b"2", 2, 0, 0)])
