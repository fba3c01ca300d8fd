"""Does the coordinator decide as Kafka does? A folder for a room of kafka_offsets/coordinator."""
