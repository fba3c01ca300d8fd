"""How can the call of KafkaConsumer itself be mocked in unit tests, and not only what it returns?

It need not be: code that makes its own consumer gets a real one, by the address of a broker in the test.
Asked in https://github.com/dpkp/kafka-python/issues/1524.
"""

from kafka import KafkaConsumer


def read_orders(bootstrap_servers):
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=500
    )
    orders = [record.value for record in consumer]
    consumer.close()
    return orders


def test_code_that_makes_its_own_consumer(kafka_broker):
    kafka_broker.produce("orders", ["tea", "milk"])
    assert read_orders(kafka_broker.bootstrap_servers) == [b"tea", b"milk"]
