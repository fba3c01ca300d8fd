"""Is there an embedded Kafka for integration tests, as Spring has one, that needs no Kafka to run before?

A process serves clients in any language; this one's is librdkafka, as that of .NET is.
Asked in https://github.com/confluentinc/confluent-kafka-dotnet/issues/1023.
"""

import subprocess
import sys

from confluent_kafka import Producer


def test_a_broker_for_a_test_in_any_language():
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            address = served.stderr.readline().removeprefix("listening on ").strip()
            producer = Producer({"bootstrap.servers": address})
            producer.produce("orders", "tea")
            assert producer.flush(20) == 0
        finally:
            served.terminate()
