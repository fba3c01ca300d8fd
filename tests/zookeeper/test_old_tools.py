"""The tools of Kafka 0.8.2.2 read the offsets that a broker commits, and it serves those that they write."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kazoo.client import KazooClient

from kafka_offsets import cli
from kafka_offsets.testing import Broker
from tests.conftest import REPOSITORY
from tests.zookeeper.real import RealServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

POM = Path(__file__).parent / "old_kafka" / "pom.xml"
JARS = Path.home() / ".cache" / "kafka-peer-0.8.2.2"
TOPIC = "t"
PARTITIONS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]


@pytest.fixture(scope="session")
def old_tools() -> list[str]:
    """The command line that runs a tool of Kafka 0.8.2.2."""
    script = REPOSITORY / "benchmarks" / "peers" / "jars.sh"
    subprocess.run(["bash", str(script), str(POM), str(JARS)], check=True)
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]


@pytest.fixture
def servers(zookeeper_server: RealServer, tmp_path: Path) -> str:
    """A part of ZooKeeper for this test, with the topic as a broker of that time registers it."""
    address = f"{zookeeper_server.address}/{tmp_path.name}"
    client = KazooClient(zookeeper_server.address)
    client.start()
    client.ensure_path(f"/{tmp_path.name}/brokers/topics")
    partitions = json.dumps({"version": 1, "partitions": {"0": [1], "1": [1]}}).encode()
    client.create(f"/{tmp_path.name}/brokers/topics/{TOPIC}", partitions)
    client.stop()
    client.close()
    return address


@pytest.fixture
def consumer(servers: str) -> Iterator[KafkaConsumer]:
    """A consumer of today, at a broker that stores offsets in ZooKeeper."""
    with Broker({"offset.storage": "zookeeper", "zookeeper.connect": servers}) as broker:
        broker.create_topic(TOPIC, partitions=len(PARTITIONS))
        made = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="g", enable_auto_commit=False
        )
        made.assign(PARTITIONS)
        yield made
        made.close()


def run(tools: list[str], tool: str, *arguments: str) -> None:
    done = subprocess.run([*tools, tool, *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and "Exception" not in done.stderr, done.stderr


def test_old_tools_export_and_import_the_offsets(
    old_tools: list[str], servers: str, consumer: KafkaConsumer, tmp_path: Path
) -> None:
    wanted = {PARTITIONS[0]: OffsetAndMetadata(12, "", -1), PARTITIONS[1]: OffsetAndMetadata(34, "", -1)}
    consumer.commit(wanted)
    exported, changed = tmp_path / "exported", tmp_path / "changed"
    run(old_tools, "kafka.tools.ExportZkOffsets", "--zkconnect", servers, "--output-file", str(exported))
    lines = sorted(exported.read_text().splitlines())
    assert lines == ["/consumers/g/offsets/t/0:12", "/consumers/g/offsets/t/1:34"]
    changed.write_text("\n".join(lines).replace(":12", ":15") + "\n")
    run(old_tools, "kafka.tools.ImportZkOffsets", "--zkconnect", servers, "--input-file", str(changed))
    assert [consumer.committed(partition) for partition in PARTITIONS] == [15, 34]


def test_a_group_is_deleted_when_its_last_old_consumer_has_left(
    servers: str, consumer: KafkaConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a consumer is an ephemeral znode, which ends with its session."""
    consumer.commit({PARTITIONS[0]: OffsetAndMetadata(12, "", -1)})
    delete = ["groups", "delete", "--bootstrap-server", str(consumer.config["bootstrap_servers"]), "g"]
    old = KazooClient(servers)
    old.start()
    try:
        old.create("/consumers/g/ids/g_host-1", b"{}", ephemeral=True, makepath=True)
        assert cli.main(delete) == 1
        assert "only a group without members can be deleted" in "".join(capsys.readouterr())
        assert consumer.committed(PARTITIONS[0]) == 12
        old.restart()
        assert cli.main(delete) == 0
        assert old.exists("/consumers/g") is None
    finally:
        old.stop()
        old.close()
