"""A dataflow of Bytewax: an invoice for each order that is in the topic.

BOOTSTRAP_SERVERS=HOST:PORT python -m bytewax.run with_bytewax
"""

import os

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow

BROKERS = [os.environ["BOOTSTRAP_SERVERS"]]

flow = Dataflow("billing")
orders = kafka.input("orders", flow, brokers=BROKERS, topics=["orders"], tail=False)
bills = op.map("bill", orders.oks, lambda order: KafkaSinkMessage(order.key, b"invoice for " + order.value))
kafka.output("invoices", bills, brokers=BROKERS, topic="invoices")
