"""What a test does beside Spark: make topics and put records into them, by kafka-python."""

from collections.abc import Iterable

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

Headers = list[tuple[str, bytes]]


class Topics:
    """Topics of the broker under test."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, name: str, partitions: int = 3, **configs: str) -> None:
        """Create a topic; configs with `_` for `.`."""
        spelled = {key.replace("_", "."): value for key, value in configs.items()}
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics(
                [NewTopic(name, num_partitions=partitions, replication_factor=1, topic_configs=spelled)]
            )

    def produce(
        self,
        topic: str,
        values: Iterable[int],
        *,
        partitions: int = 3,
        headers: Headers | None = None,
        **options: object,
    ) -> None:
        """Put each number into partition `number % partitions`, with itself as key and as timestamp in seconds."""
        with KafkaProducer(bootstrap_servers=self.bootstrap, **options) as producer:
            sent = [
                producer.send(
                    topic,
                    key=b"%d" % value,
                    value=b"value %d" % value,
                    partition=value % partitions,
                    timestamp_ms=1_700_000_000_000 + 1000 * value,
                    headers=headers or [],
                )
                for value in values
            ]
            producer.flush(timeout=10)
            assert all(future.succeeded() for future in sent)

    def produce_in_transactions(self, topic: str, outcomes: Iterable[bool]) -> None:
        """Put the numbers 0, 1, 2, … into partition 0, each in a transaction that is committed or aborted."""
        with KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=topic) as producer:
            producer.init_transactions()
            for number, commits in enumerate(outcomes):
                producer.begin_transaction()
                producer.send(topic, key=b"%d" % number, partition=0).get(timeout=10)
                (producer.commit_transaction if commits else producer.abort_transaction)()
