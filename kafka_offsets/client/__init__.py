"""Client of a broker, this one or Apache Kafka: one connection, one request at a time."""
