"""A consumer against arbitrary schedules: Hypothesis looks for one in which it loses an order, and finds it."""

import pytest
from confluent_kafka import Consumer, KafkaException

from kafka_offsets.testing.machines import ConsumerMachine, check

SETTINGS = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
SETTINGS |= {"heartbeat.interval.ms": 50, "fetch.wait.max.ms": 20, "log_level": 0}


class Billing:
    """The code under test; `books` represents its table of orders."""

    def __init__(self, machine, settings):
        self.books = machine.books
        self.acts = (self.commit, self.note) if machine.is_hasty else (self.note, self.commit)
        self.consumer = Consumer(SETTINGS | settings)
        self.consumer.subscribe(["orders"])

    def work(self):
        for message in self.consumer.consume(10, timeout=0.05):
            for act in self.acts if message.error() is None else ():
                act(message)

    def note(self, message):
        self.books.append(message.value())

    def commit(self, message):
        try:
            self.consumer.commit(message, asynchronous=False)
        except KafkaException:
            pass  # the order comes again; the books know it by its number


class BillingMachine(ConsumerMachine):
    group, is_hasty = "billing", False

    def start(self, bootstrap_servers, client_id):
        return Billing(self, {"bootstrap.servers": bootstrap_servers, "client.id": client_id})

    def step(self, worker):
        worker.work()

    def stop(self, worker):
        worker.consumer.close()


class HastyMachine(BillingMachine):
    is_hasty = True  # the bug: it commits an order before it has noted it


def test_no_order_is_lost():
    check(BillingMachine, examples=3, steps=8)


def test_a_hasty_commit_is_found():
    with pytest.raises(AssertionError, match=r"committed orders-\d at \d before orders-\d-\d was dealt with"):
        check(HastyMachine, shrink=False)
