"""Real clients over a socket, against our broker or, to judge the tests themselves, against Apache Kafka."""
