"""What real clients do in the tests of `Broker.why`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, Producer

from kafka_offsets.diagnosis.findings import Findings
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.testing import Broker
from tests.diagnosis.histories import gather

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": False,
    "group.min.session.timeout.ms": 100,
}


def consumer(broker: Broker, group: str = "billing", client: str = "w1", **more: Any) -> Consumer:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "client.id": client,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        "error_cb": lambda error: None,
    }
    return Consumer(settings | {name.replace("_", "."): value for name, value in more.items()})


def joined(
    broker: Broker, group: str = "billing", client: str = "w1", members: int = 1, **more: Any
) -> Consumer:
    """Return a consumer of orders that is a member and has its assignment."""
    made = consumer(broker, group, client, **more)
    made.subscribe(["orders"])
    until(lambda: (made.poll(0.05) and False) or made.assignment() != [] or members > 1)
    return made


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Let a client work until something holds; it is the client that needs the time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to that"


def said(broker: Broker, name: str, group: str | None = "billing") -> str:
    """Return the sentence of a finding, which must be there."""
    found = broker.why(group)
    sentences = [each.sentence for each in found if each.name == name]
    assert sentences, f"{name} is none of {[each.name for each in found]}: {found}"
    return sentences[0]


def found_at(broker: Broker, later_ms: int = 0, group: str = "billing") -> Findings:
    """Return the findings as they will be if nothing happens for a while, where the time passes by itself."""
    return broker._call(
        lambda server: diagnose(
            replace(gather(server.core, group), is_time_still=False),
            server.core.clock.now().wall_ms + later_ms,
            group,
        )
    )


def is_stable(broker: Broker, members: int) -> bool:
    view = broker.group("billing")
    return view is not None and view.is_settled and len(view.members) == members


def producer(broker: Broker, **more: Any) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "error_cb": lambda error: None}
    made = Producer(
        settings
        | {"transactional.id": "tx-1"}
        | {name.replace("_", "."): value for name, value in more.items()}
    )
    made.init_transactions()
    made.begin_transaction()
    return made
