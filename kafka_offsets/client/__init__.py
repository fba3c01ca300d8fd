"""What talks to a broker, ours or Apache Kafka: one connection, one request at a time."""
