"""A worker of Faust: an invoice and a count for each order.

BOOTSTRAP_SERVERS=HOST:PORT faust -A with_faust worker --without-web
"""

import os

import faust

app = faust.App(
    "faust-billing",
    broker="kafka://" + os.environ["BOOTSTRAP_SERVERS"],
    topic_partitions=1,
    topic_disable_leader=True,
    stream_wait_empty=False,
    broker_commit_interval=0.1,
)
orders = app.topic("orders", value_type=str, value_serializer="raw")
invoices = app.topic("invoices", value_type=str, value_serializer="raw")
counts = app.Table("counts", default=int)


@app.agent(orders)
async def bill(stream: faust.Stream[str]) -> None:
    """Send an invoice, and count the order in a table, which is kept in a topic."""
    async for order in stream:
        counts[order] += 1
        await invoices.send(value=f"{counts[order]} {order}")
