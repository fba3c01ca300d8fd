"""Offsets in ZooKeeper, as old consumers keep them: a program of that time shares them with a consumer of today.

    python examples/zookeeper_offsets.py localhost:2181

Prints:

    the consumer has committed; the znode holds 2
    the znode is set to 5; the consumer continues with job 5
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kazoo.client import KazooClient

from kafka_offsets import Broker

JOBS = TopicPartition("jobs", 0)
ZNODE = "/consumers/workers/offsets/jobs/0"


def new_consumer(broker: Broker) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="workers", enable_auto_commit=False
    )
    consumer.assign([JOBS])
    return consumer


def main(servers: str) -> None:
    old_program = KazooClient(servers)
    old_program.start()
    with Broker({"offset.storage": "zookeeper", "zookeeper.connect": servers}) as broker:
        broker.create_topic("jobs")
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("jobs", b"job %d" % number).get(timeout=10)
        with new_consumer(broker) as consumer:
            consumer.seek(JOBS, 0)
            for _ in range(2):
                next(consumer)
            consumer.commit()
        data, _ = old_program.get(ZNODE)
        print("the consumer has committed; the znode holds", data.decode())
        old_program.set(ZNODE, b"5")
        with new_consumer(broker) as consumer:
            print("the znode is set to 5; the consumer continues with", next(consumer).value.decode())
    old_program.stop()
    old_program.close()


if __name__ == "__main__":
    main(sys.argv[1])
