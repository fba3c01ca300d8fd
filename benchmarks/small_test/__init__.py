"""How long a small test takes with six clients, beside Apache Kafka: `python -m benchmarks.small_test`."""
