"""A test of an application of Quix Streams as it runs: a dataframe with state, its group and its topics.

    pytest examples/test_with_quix.py

Quix Streams' own `dataframe.test(value)` calls its functions without a broker; here the group, its offsets, what is
sent and the changelog of the state are Kafka's, exactly once.
"""

import pytest
from quixstreams import Application, State


def make_application(bootstrap_servers: str, folder: str) -> Application:
    """The code under test: an invoice for each order, with how often its key came."""
    application = Application(
        broker_address=bootstrap_servers,
        consumer_group="billing",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=folder,
        commit_interval=0.1,
    )
    orders = application.topic("orders", key_deserializer="str", value_deserializer="str")
    invoices = application.topic("invoices", value_serializer="str")

    def bill(order: str, state: State) -> str:
        count = state.get("count", 0) + 1
        state.set("count", count)
        return f"{count} {order}"

    application.dataframe(orders).apply(bill, stateful=True).to_topic(invoices)
    return application


@pytest.mark.kafka(topics=["orders", "invoices"])
def test_each_order_gets_an_invoice(kafka_broker, tmp_path):
    kafka_broker.produce("orders", {"alice": "tea"})
    kafka_broker.produce("orders", {"alice": "milk"})
    make_application(kafka_broker.bootstrap_servers, str(tmp_path)).run(count=2, timeout=60)
    invoices = [record.value for record in kafka_broker.consume_all("invoices")]
    assert invoices == [b"1 tea", b"2 milk"]
    kafka_broker.assert_lag("billing", 0, timeout=10)


@pytest.mark.kafka(topics=["orders", "invoices"])
def test_an_application_that_starts_again_continues(kafka_broker, tmp_path):
    for number, order in enumerate(["tea", "milk"], 1):
        kafka_broker.produce("orders", {"alice": order})
        folder = tmp_path / str(number)  # the state comes from its changelog
        make_application(kafka_broker.bootstrap_servers, str(folder)).run(count=1, timeout=60)
    invoices = [record.value for record in kafka_broker.consume_all("invoices")]
    assert invoices == [b"1 tea", b"2 milk"]
