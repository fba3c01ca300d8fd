"""What a client committed before kill -9 is found by the same client after a restart on the same data directory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion

from tests.differential.brokers import RemoteBroker
from tests.differential.play import Client, Play
from tests.interop import story
from tests.interop.broker_process import BrokerProcess
from tests.interop.names import Names
from tests.interop.test_aiokafka import AioKafka
from tests.interop.test_confluent_kafka import ConfluentKafka
from tests.interop.test_java import Shell
from tests.interop.test_kafka_python import KafkaPython
from tests.interop.test_kcat import Kcat
from tests.interop.test_kcat import start as start_kcat
from tests.interop.waiting import until

pytestmark = pytest.mark.interop

BEFORE, AFTER = 100, 120
CONSUMER_PROTOCOL = "group.protocol=consumer"
CLIENTS = (
    "kafka-python",
    "confluent-kafka",
    "confluent-kafka-consumer-protocol",
    "aiokafka",
    "kcat",
    "java",
    "java-consumer-protocol",
)
# A client lives as long as the broker it is connected to; the stack closes it.
Connect = Callable[[str, ExitStack], story.Client]


def kafka_python(bootstrap: str, stack: ExitStack) -> story.Client:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    stack.callback(admin.close)
    return KafkaPython(bootstrap, admin)


def java(command: list[str], *member_settings: str) -> Connect:
    def connect(bootstrap: str, stack: ExitStack) -> story.Client:
        shell = Shell(command, bootstrap, *member_settings)
        stack.callback(shell.close)
        return shell

    return connect


@pytest.fixture(params=CLIENTS)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Make one client; those that need a tool ask for it, and are skipped without it."""
    if request.param == "kafka-python":
        return kafka_python
    more = [CONSUMER_PROTOCOL] if request.param.endswith("consumer-protocol") else []
    if request.param.startswith("confluent-kafka"):
        return lambda bootstrap, _: ConfluentKafka(bootstrap, *more)
    if request.param == "aiokafka":
        return lambda bootstrap, _: AioKafka(bootstrap)
    if request.param == "kcat":
        path: str = request.getfixturevalue("kcat")
        return lambda bootstrap, _: Kcat(path, bootstrap)
    return java(request.getfixturevalue("java_client"), *more)


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[[list[str]], story.Member]:
    """How a member of this client is started."""
    return start_kcat if "kcat" in request.node.name else story.Member


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One data directory for all clients: it is killed once for each of them."""
    process = BrokerProcess(tmp_path_factory.mktemp("restart") / "data")
    process.start()
    yield process
    process.stop()


def test_committed_offsets_survive_kill_and_restart(
    broker: BrokerProcess, connect: Connect, start: Callable[[list[str]], story.Member], names: Names
) -> None:
    topic, group = names.topic(), names.group()
    with ExitStack() as stack:
        client = connect(broker.address, stack)
        client.create_topic(topic, story.PARTITIONS)
        client.produce(topic, range(BEFORE))
        first = start(client.member(group, topic, "sync"))
        stack.callback(first.leave)
        until(lambda: len(first.values) == BEFORE, "the first member reads all")
        ends = client.end_offsets(topic)
        if start is start_kcat:  # which commits when it leaves, or every five seconds
            assert first.leave() == 0
        until(lambda: dict(client.committed(group, topic)) == ends, "the first member commits all")
        first.kill()
    broker.kill()
    broker.assert_clean_log()
    with ExitStack() as stack:
        client = connect(broker.start(), stack)
        until(lambda: client.committed(group, topic), "the group is loaded")
        assert dict(client.committed(group, topic)) == ends
        assert dict(client.end_offsets(topic)) == ends
        client.produce(topic, range(BEFORE, AFTER))
        second = start(client.member(group, topic, "sync"))
        stack.callback(second.leave)
        until(lambda: len(second.values) >= AFTER - BEFORE, "the second member reads what came later")
        assert second.values == set(range(BEFORE, AFTER)), "it goes on where the first one committed"


def test_a_data_directory_in_use_is_refused_and_a_stale_lock_is_not(tmp_path: Path) -> None:
    first = BrokerProcess(tmp_path / "data")
    first.start()
    try:
        second = BrokerProcess(tmp_path / "data")
        with pytest.raises(AssertionError, match="did not come up"):
            second.start()
        assert not any(line.lstrip().startswith("Traceback") for line in second.log), second.log_text()
    finally:
        first.kill()
    first.start()
    first.stop()


def ask(address: str, api: str, **fields: object) -> Any:
    """Ask by name, over a connection of its own; of version 0."""
    host, _, port = address.rpartition(":")
    remote = RemoteBroker(host, int(port))
    with closing(remote):
        return Client(Play(remote, "restart", ()), "restart").ask(api, 0, **fields)


def test_passwords_and_quotas_survive_kill_and_restart(broker: BrokerProcess, names: Names) -> None:
    user = names.topic()
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        upsertion = UserScramCredentialUpsertion(user, "SCRAM-SHA-256", "secret", iterations=4096)
        assert admin.alter_user_scram_credentials([upsertion]) == {user: None}
    entity = [{"entity_type": "user", "entity_name": user}]
    ops = [{"key": "consumer_byte_rate", "value": 10.0, "remove": False}]
    changes = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
    (answer,) = ask(broker.address, "AlterClientQuotas", **changes).entries
    assert answer.error_code == 0
    broker.kill()
    broker.start()
    component = {"entity_type": "user", "match_type": 0, "match": user}

    def quotas() -> list[tuple[str, float]]:
        entries = ask(broker.address, "DescribeClientQuotas", components=[component], strict=True).entries
        return [(value.key, value.value) for entry in entries for value in entry.values]

    def passwords() -> list[tuple[int, int]]:
        (found,) = ask(broker.address, "DescribeUserScramCredentials", users=[{"name": user}]).results
        return [(info.mechanism, info.iterations) for info in found.credential_infos]

    until(lambda: quotas() == [("consumer_byte_rate", 10.0)], "the quota is there")
    until(lambda: passwords() == [(1, 4096)], "the password is there")
