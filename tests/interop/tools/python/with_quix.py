"""An application of Quix Streams: an invoice and a count for each order, exactly once.

python with_quix.py HOST:PORT STATE_FOLDER
"""

import sys

from quixstreams import Application, State

address, folder = sys.argv[1:]
application = Application(
    broker_address=address,
    consumer_group="quix-billing",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=folder,
    commit_interval=0.1,
)
orders = application.topic("orders", key_deserializer="str", value_deserializer="str")
invoices = application.topic("invoices", value_serializer="str")


def bill(order: str, state: State) -> str:
    """Return an invoice, and count the orders of the key in a store, which is kept in a topic."""
    count = state.get("count", 0) + 1
    state.set("count", count)
    return f"{count} {order}"


application.dataframe(orders).apply(bill, stateful=True).to_topic(invoices)
application.run(count=2, timeout=60)
