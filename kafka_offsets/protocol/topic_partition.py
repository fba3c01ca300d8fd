"""TopicPartition: a partition, by the name of its topic and its number."""

TopicPartition = tuple[str, int]
