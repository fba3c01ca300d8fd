"""ListTransactions: what it lists, and in how long steps."""

from typing import Any

import pytest

from kafka_offsets.coordinator.transactions.decisions import Transaction, TransactionState
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer


def listed(client: CoreClient) -> list[Any]:
    """Take the answer, if it has come: the ids in it."""
    return [state.transactional_id for answer in client.take() for state in answer.transaction_states]


def ask(client: CoreClient, pattern: str) -> None:
    client.send((messages.ListTransactionsRequest([], [], -1, pattern), 2))
    client.turn()


@pytest.mark.parametrize(
    ("pattern", "expected", "least_steps"),
    [("a-.*7", ["a-7"], 4), (".*", None, 6), (None, None, 3), ("", None, 3), ("b", [], 4)],
)
def test_many_ids_are_compared_in_steps_between_which_others_are_served(
    pattern: str | None, expected: list[str] | None, least_steps: int
) -> None:
    # 200,000 ids and an expression held up everybody for the seconds that all of them took.
    core = make_core()
    Producer(core).init()
    ids = core.transactions.ids[0]
    ids.clear()
    for number in range(6000):
        name = f"a-{number}" if number < 10 else f"b-{number}"
        ids[name] = Transaction(number, 0, 60_000, TransactionState.EMPTY, 0)
    for partition in core.transactions.ids[1:]:
        partition.clear()
    client, other = CoreClient(core), CoreClient(core)
    ask(client, pattern)  # type: ignore[arg-type]
    assert client.take() == []
    steps = 1
    while not (found := client.take()):
        core.clock.advance(1)  # type: ignore[attr-defined]
        client.turn()
        other.committed("g")
        steps += 1
    names = [state.transactional_id for state in found[0].transaction_states]
    assert names == (list(ids) if expected is None else expected)
    assert steps >= least_steps


def test_few_ids_are_listed_at_once_and_a_wrong_expression_is_refused() -> None:
    core = make_core()
    Producer(core, "x").init()
    client = CoreClient(core)
    ask(client, "[xy]")
    assert listed(client) == ["x"]
    client.send((messages.ListTransactionsRequest([], [], -1, "["), 2))
    client.turn()
    assert [answer.error_code for answer in client.take()] == [128]
