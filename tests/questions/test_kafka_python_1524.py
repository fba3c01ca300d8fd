"""How can the call of KafkaConsumer itself be mocked in unit tests, and not only what it returns?

It need not be: code that makes its own consumer gets a real one, by the address of a broker in the test.
Asked in https://github.com/dpkp/kafka-python/issues/1524.
"""

from kafka import KafkaConsumer


def read_orders(bootstrap_servers, count):
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    orders = [next(consumer).value for _ in range(count)]
    consumer.close()
    return orders


def test_code_that_makes_its_own_consumer(kafka_broker):
    kafka_broker.produce("orders", ["tea", "milk"])
    assert read_orders(kafka_broker.bootstrap_servers, 2) == [b"tea", b"milk"]
