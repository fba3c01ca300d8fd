"""Apache Kafka starts on a log of offsets that Spark has compacted and rewritten, and serves what it served before."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.broker_process import OVERRIDE
from tests.interop.conftest import kafka
from tests.interop.kafka_peer import KafkaPeer
from tests.interop.test_kafka_round_trip import AT_REST, OFFSETS_TOPIC, OTHERS, client_of, write_as_kafka
from tests.spark.pipelines import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kafka"]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.apache_kafka,
    pytest.mark.spark,
    pytest.mark.skipif(OVERRIDE is not None, reason="it is Apache Kafka that takes the directory"),
]

PARTITIONS = int(AT_REST["offsets.topic.num.partitions"])


def take_in(logs: Path, written: Path) -> None:
    """Put the folders that were written in place of Kafka's own."""
    for partition in range(PARTITIONS):
        name = f"{OFFSETS_TOPIC}-{partition}"
        topic_id = (logs / name / "partition.metadata").read_bytes()
        shutil.rmtree(logs / name)
        shutil.copytree(written / name, logs / name)
        (logs / name / "partition.metadata").write_bytes(topic_id)
    for checkpoint in logs.glob("*-checkpoint"):
        head, _, *lines = checkpoint.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(f"{OFFSETS_TOPIC} ")]
        checkpoint.write_text("".join(f"{line}\n" for line in (head, len(kept), *kept)))


def test_kafka_serves_the_offsets_of_a_rewritten_log(
    spark: "SparkSession", kafka: KafkaPeer, tmp_path: Path
) -> None:
    from kafka_offsets.spark.pipelines import write_segments

    with client_of(kafka.start(AT_REST)) as client:
        write_as_kafka(client)
        listed = client.groups()
        said = client.committed(set(listed) - OTHERS)
    kafka.stop()
    done = write_segments(read(spark, kafka.logs), tmp_path / "written", partitions=PARTITIONS)
    assert done.bytes < sum(path.stat().st_size for path in kafka.logs.glob(f"{OFFSETS_TOPIC}-*/0*.log")) / 10
    take_in(kafka.logs, tmp_path / "written")
    with client_of(kafka.start(AT_REST)) as client:
        assert client.committed(set(said)) == said
        assert client.groups() == {group: kinds for group, kinds in listed.items() if group != "aborted"} | {
            group: kinds for group, kinds in listed.items() if group == "aborted" and said[group]
        }
    kafka.stop()
