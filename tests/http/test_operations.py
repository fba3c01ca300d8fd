"""The table of operations: it has everything that `kafka_offsets.testing` gives Python, and OpenAPI describes it."""

import inspect
from collections.abc import Iterator
from typing import Any, get_origin

import pytest

from kafka_offsets.clock import ManualClock
from kafka_offsets.http.operations import Operation, operations
from kafka_offsets.testing import Broker, Cluster, Faults
from kafka_offsets.testing.server import events
from tests.conftest import GeneratedPart

OTHERWISE = {
    "Broker.async_wait_for": "POST /brokers/{broker}/wait_for/committed",
    "Broker.bootstrap_servers": "GET /brokers/{broker}",
    "Broker.clock": "GET /brokers/{broker}/clock",
    "Broker.faults": "GET /brokers/{broker}/faults",
    "Broker.last_event": "GET /brokers/{broker}/requests",
    "Broker.requests": "GET /brokers/{broker}/requests",
    "Broker.requests_after": "GET /brokers/{broker}/requests",
    "Broker.restore": "POST /brokers/{broker}/restore",
    "Broker.save_capture": "GET /brokers/{broker}/capture",
    "Broker.snapshot": "POST /brokers/{broker}/snapshot",
    "Broker.start": "POST /brokers",
    "Broker.stop": "DELETE /brokers/{broker}",
    "Broker.wait_for": "POST /brokers/{broker}/wait_for/committed",
    "Faults.active": "GET /brokers/{broker}/faults",
    "Faults.named": "GET /brokers/{broker}/faults",
    "Faults.over": "GET /brokers/{broker}/faults",
    "Faults.remove": "DELETE /brokers/{broker}/faults/{fault}",
    "Faults.struck": "GET /brokers/{broker}/faults",
    "ManualClock.now": "GET /brokers/{broker}/clock",
}
"""What has another name over HTTP."""

ABSENT = {
    "Broker.acls": "objects of Python; over Kafka's protocol it is DescribeAcls",
    "Broker.add_acls": "objects of Python; over Kafka's protocol it is CreateAcls",
    "Broker.reload_certificates": "certificates are files that the test of Python writes; a server has SIGHUP",
    "Broker.remove_acls": "objects of Python; over Kafka's protocol it is DeleteAcls",
    "Faults.control": "a function of Python",
    "Faults.end": "for the broker's thread",
    "Faults.end_disk": "for the broker's thread",
    "Faults.follow": "for the broker's thread",
    "Faults.lift_disk": "for the broker's thread",
    "ManualClock.attach": "for brokers",
    "ManualClock.detach": "for brokers",
}

ROWS = [f"{each.method} {each.path}" for each in operations()]


def public() -> Iterator[str]:
    """Yield the name of everything public that a test has in Python."""
    for cls in (Broker, Cluster, Faults, ManualClock):
        for name, member in inspect.getmembers(cls):
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                yield f"{'Broker' if cls is Cluster and hasattr(Broker, name) else cls.__name__}.{name}"
    for name, member in inspect.getmembers(events, inspect.isfunction):
        if (
            not name.startswith("_")
            and get_origin(inspect.signature(member).return_annotation) is events.Event
        ):
            yield f"events.{name}"


def test_everything_that_python_has_is_there_over_http() -> None:
    found = set(public()) - OTHERWISE.keys() - ABSENT.keys()
    own = {
        f"{kind}.{name}" for kind, name in [("Broker", "lag"), ("Faults", "error"), ("events", "committed")]
    }
    assert own <= found
    served = {each.path.removeprefix("/brokers/{broker}/") for each in operations()}
    homes = {"Broker": "", "Cluster": "", "Faults": "faults/", "ManualClock": "clock/", "events": "wait_for/"}
    paths = [homes[home] + name for home, name in (each.split(".") for each in found)]
    assert set(paths) - served == {"faults/clear"}  # DELETE faults


def test_what_has_another_name_over_http_is_served_by_that_name() -> None:
    assert OTHERWISE.keys() | ABSENT.keys() <= set(public())
    assert [row for row in OTHERWISE.values() if row not in ROWS] == []


def test_no_two_operations_have_one_name_or_one_path() -> None:
    names = [each.name for each in operations()]
    assert len(set(names)) == len(names)
    assert len(set(ROWS)) == len(ROWS)


@pytest.mark.parametrize("operation", operations(), ids=lambda each: each.name)
def test_every_operation_says_what_it_does(operation: Operation) -> None:
    summary = operation.text.partition("\n")[0]
    assert summary.endswith(".") or ". " in summary
    assert [each.name for each in operation.parameters if each.kind is Any] == []


def test_the_table_of_the_page_is_that_of_the_code(generated: GeneratedPart) -> None:
    rows = ["| | parameters | |", "|---|---|---|"]
    for each in operations():
        in_path = each.path
        named = [f"`{one.name}`" for one in each.parameters if f"{{{one.name}}}" not in in_path]
        summary = each.text.partition("\n")[0].replace("|", "\\|")
        path = in_path.replace("/brokers/{broker}/", "")
        rows.append(f"| `{each.method} {path}` | {', '.join(named)} | {summary} |")
    generated.check("docs/http-operations.md", "operations", "\n".join(rows))
