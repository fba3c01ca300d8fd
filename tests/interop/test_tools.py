"""Tools and libraries of others run on this broker: the rows of the table in docs/clients.md.

They are started as their users do. KafkaJS is taken from KAFKA_OFFSETS_NODE_MODULES, kafka-go by the go command, and
Kafka Streams and the scripts of Kafka from Maven Central.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_offsets.testing import Broker, allow
from tests.http.test_examples import MODULES
from tests.interop import kafka_peer, real_kafka
from tests.interop.java_program import FLAGS, JARS

TOOLS = Path(__file__).parent / "tools"
STREAMS = JARS.parent / "streams-jars"
JAVA = "org.apache.kafka.tools"

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def run(*words: object, cwd: Path = TOOLS, **environment: str) -> str:
    """Run a program that must succeed; return what it prints."""
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


Script = Callable[..., list[str]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run commands of Kafka's scripts, `CLASS OPTION…` each, all at once; return what each prints."""
    kafka_peer.need_tools()
    if not (real_kafka.HOME / "libs").is_dir():
        kafka_peer.tool("ClusterTool", "--help")  # loads the jars
    silent = tmp_path / "log4j2.yaml"
    silent.write_text("Configuration: {Loggers: {Root: {level: OFF}}}")
    java = real_kafka.tool(silent)

    def run_all(broker: Broker, *commands: str) -> list[str]:
        running = [
            subprocess.Popen(
                [*java, *command.split(), "--bootstrap-server", broker.bootstrap_servers],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for command in commands
        ]
        printed = [each.communicate()[0] for each in running]
        assert [each.returncode for each in running] == [0] * len(commands), printed
        return printed

    return run_all


@pytest.mark.java
def test_the_scripts_of_kafka(script: Script) -> None:
    with Broker() as broker:
        broker.produce("orders", ["a", "b"])
        script(
            broker,
            f"{JAVA}.TopicCommand --create --topic made --partitions 2 --config cleanup.policy=compact",
        )
        described, consumed, ends, configured = script(
            broker,
            f"{JAVA}.TopicCommand --describe --topic made",
            f"{JAVA}.consumer.ConsoleConsumer --topic orders --from-beginning --max-messages 2 --group g",
            f"{JAVA}.GetOffsetShell --topic orders",
            "kafka.admin.ConfigCommand --alter --entity-type topics --entity-name made --add-config retention.ms=1000",
        )
        assert "PartitionCount: 2" in described and "cleanup.policy=compact" in described
        assert consumed.splitlines()[-3:-1] == ["a", "b"]
        assert ends == "orders:0:2\n"
        assert configured == "Completed updating config for topic made.\n"
        groups, directories, produced = script(
            broker,
            f"{JAVA}.GroupsCommand --list",
            f"{JAVA}.LogDirsCommand --describe --topic-list orders",
            f"{JAVA}.VerifiableProducer --topic orders --max-messages 3",
        )
        assert re.search(r"^g +Classic +consumer", groups, re.MULTILINE)
        assert '"partition":"orders-0"' in directories
        assert produced.count("producer_send_success") == 3
        assert len(broker.consume_all("orders")) == 5


@pytest.mark.java
def test_the_script_for_acls(script: Script) -> None:
    rule = "--allow-principal User:alice --operation Read --topic orders"
    with Broker({"super.users": "User:ANONYMOUS"}, acls=[]) as broker:
        script(broker, f"{JAVA}.AclCommand --add {rule}")
        assert broker.acls == {allow("alice", "READ", topic="orders")}
        (listed,) = script(broker, f"{JAVA}.AclCommand --list")
        assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
        script(broker, f"{JAVA}.AclCommand --remove --force {rule}")
        assert broker.acls == frozenset()


@pytest.mark.java
def test_the_script_for_delegation_tokens(script: Script, tmp_path: Path) -> None:
    """Alice makes a token for a client that has its secret alone."""
    module = "org.apache.kafka.common.security"
    alice, bearer = tmp_path / "alice.properties", tmp_path / "token.properties"
    plain = f'{module}.plain.PlainLoginModule required username="alice" password="secret";'
    alice.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={plain}\n")
    tokens = f"{JAVA}.DelegationTokenCommand --command-config {alice}"
    with Broker({"delegation.token.secret.key": "key"}, users={"alice": "secret"}) as broker:
        broker.produce("orders", ["a"])
        (made,) = script(broker, f"{tokens} --create --max-life-time-period -1 --renewer-principal User:bob")
        row = re.search(r"^(\S{22})\s+(\S+)\s+User:alice\s+User:alice\s+\[?User:bob", made, re.MULTILINE)
        assert row is not None, made
        token_id, secret = row.groups()
        scram = f'{module}.scram.ScramLoginModule required username="{token_id}" password="{secret}" tokenauth="true";'
        bearer.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={scram}\n"
        )
        described, offsets = script(
            broker,
            f"{tokens} --describe --owner-principal User:alice",
            f"{JAVA}.GetOffsetShell --topic orders --command-config {bearer}",
        )
        assert token_id in described
        assert offsets == "orders:0:1\n"
        script(broker, f"{tokens} --expire --expiry-time-period -1 --hmac {secret}")
        (described,) = script(broker, f"{tokens} --describe --owner-principal User:alice")
        assert token_id not in described


@pytest.mark.java
def test_kafka_streams_counts_words_exactly_once(tmp_path: Path) -> None:
    kafka_peer.need_tools()
    if not list(STREAMS.glob("kafka-streams-*.jar")):
        pom = TOOLS / "streams" / "pom.xml"
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={STREAMS}")
    with Broker() as broker:
        broker.create_topic("words-counts")
        broker.produce("words", ["a b", "a c"])
        program = TOOLS / "streams" / "WordCount.java"
        run("java", *FLAGS, "-cp", f"{STREAMS}/*", program, broker.bootstrap_servers, "words", 4, tmp_path)
        counts = {record.key: record.value for record in broker.consume_all("words-counts")}
        assert counts == {b"a": b"2", b"b": b"1", b"c": b"1"}
        broker.assert_committed("word-count-words", {("words", 0): 2})


def test_kafka_go() -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    with Broker() as broker:
        assert (
            run("go", "run", ".", broker.bootstrap_servers, "orders", "g", cwd=TOOLS / "kafka-go")
            == "first 1\n"
        )


def need_kafkajs() -> None:
    """Skip without Node or KafkaJS."""
    if shutil.which("node") is None or not (MODULES / "kafkajs").is_dir():
        pytest.skip(f"kafkajs is not installed: npm install --prefix {MODULES.parent} kafkajs@2")


def test_kafkajs() -> None:
    need_kafkajs()
    with Broker() as broker:
        address = broker.bootstrap_servers
        assert run("node", "kafkajs.js", address, "orders", "g", NODE_PATH=str(MODULES)) == "first 1\n"
