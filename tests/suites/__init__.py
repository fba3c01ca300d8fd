"""The test suites of other projects, run against our broker and against Apache Kafka: `make suites`."""
