"""A broker that survives a restart: what was produced and committed is there again, from the same directory.

Prints:

    the first run reads job 0 and job 1
    the second run reads job 2 and job 3
"""

import tempfile
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from kafka_offsets import Broker


def consume_two(bootstrap_servers: str) -> str:
    """Read two records where the group continues, and commit what comes next."""
    with KafkaConsumer(
        "jobs",
        bootstrap_servers=bootstrap_servers,
        group_id="workers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        values = [next(consumer).value.decode() for _ in range(2)]
        consumer.commit()
    return " and ".join(values)


def main(data_directory: Path) -> None:
    with Broker(data_directory=data_directory) as broker:
        broker.create_topic("jobs")
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(4):
                producer.send("jobs", b"job %d" % number).get(timeout=10)
        print("the first run reads", consume_two(broker.bootstrap_servers))
    with Broker(data_directory=data_directory) as broker:
        assert broker.committed("workers")["jobs", 0].offset == 2
        print("the second run reads", consume_two(broker.bootstrap_servers))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
