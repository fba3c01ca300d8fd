"""A test that looks at committed offsets: from inside, and as any client sees them.

A consumer assigns itself partitions and commits for a group, which has no members. Then an admin moves an offset of it.

Prints:

    orders-0: 7 'checked by hand'
    orders-2: 40 ''
    moved by an admin: orders-2 at 0
    compacted: 1 of 3 records gone
"""

from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition

from kafka_offsets import Broker


def commit(bootstrap_servers: str) -> None:
    with KafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id="audit", enable_auto_commit=False
    ) as consumer:
        partitions = [TopicPartition("orders", index) for index in range(3)]
        consumer.assign(partitions)
        consumer.commit(
            {
                partitions[0]: OffsetAndMetadata(7, "checked by hand", -1),
                partitions[2]: OffsetAndMetadata(40, "", -1),
            }
        )


def main() -> None:
    with Broker() as broker:
        broker.create_topic("orders", partitions=3)
        commit(broker.bootstrap_servers)
        for (topic, partition), entry in sorted(broker.committed("audit").items()):
            print(f"{topic}-{partition}: {entry.offset} {entry.metadata!r}")

        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            seen = admin.list_group_offsets("audit")["audit"]
            assert seen[TopicPartition("orders", 2)].offset == 40
            admin.alter_group_offsets("audit", {TopicPartition("orders", 2): OffsetAndMetadata(0, "", -1)})
        print(f"moved by an admin: orders-2 at {broker.committed('audit')['orders', 2].offset}")

        logs = broker.compact(include_active=True).values()
        gone = sum(log.records_gone for log in logs)
        print(f"compacted: {gone} of {sum(log.records for log in logs)} records gone")


if __name__ == "__main__":
    main()
