"""Why is a group stuck? The broker says it in one sentence.

Prints:

    group 'biling' does not exist; did you mean billing?
    group 'billing' has committed 9 in orders-0, beyond the end 2, so it waits for 7 records that nobody has produced
    Reset the offsets; look at `auto.offset.reset` and the retention of the topic.
    []
"""

from kafka_offsets import Broker

with Broker() as broker:
    broker.produce("orders", ["first", "second"])
    broker.commit("billing", {("orders", 0): 9})
    print(broker.why("biling"))
    (finding,) = broker.why("billing")
    print(finding.sentence)
    print(finding.help)
    broker.commit("billing", {("orders", 0): 2})
    print([*broker.why("billing")])
