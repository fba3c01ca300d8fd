"""Commits, conditional commits and reads of one offset are linearizable. The full form: `make linearizability`."""

import random

import pytest

from kafka_offsets.coordinator.state.offset_table import OffsetTable
from tests.properties.linearizability import check
from tests.properties.registers import NEVER, Operation, is_linearizable


def read(found: int, called: float, answered: float) -> Operation:
    return Operation(0, None, None, found, called, answered)


def write(value: int, called: float, answered: float) -> Operation:
    return Operation(1, value, None, None, called, answered)


def replace(
    value: int, expected: int, found: int | None, called: float, answered: float, *, ok: bool
) -> Operation:
    return Operation(2, value, expected, found, called, answered, not ok)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [read(-1, 0, 1), write(5, 2, 3), read(5, 4, 5)],
        [write(5, 0, 10), read(-1, 1, 2), read(5, 3, 4)],
        [write(5, 0, 10), write(6, 0, 10), read(6, 1, 2), read(5, 3, 4)],
        [write(5, 0, NEVER), read(-1, 1, 2), read(5, 3, 4)],
        [write(5, 0, NEVER), read(-1, 1, 2), read(-1, 3, 4)],
        [replace(5, -1, -1, 0, 1, ok=True), replace(6, -1, 5, 2, 3, ok=False), read(5, 4, 5)],
        [replace(5, -1, None, 0, NEVER, ok=True), replace(6, -1, 5, 1, 2, ok=False)],
    ],
)
def test_histories_of_a_register_are_taken_for_such(history: list[Operation]) -> None:
    assert is_linearizable(history)


@pytest.mark.parametrize(
    "history",
    [
        [write(5, 0, 1), read(-1, 2, 3)],
        [write(5, 0, 10), read(5, 1, 2), read(-1, 3, 4)],
        [write(5, 0, 10), write(6, 0, 10), read(6, 1, 2), read(5, 3, 4), read(6, 5, 6)],
        [write(5, 0, NEVER), read(5, 1, 2), read(-1, 3, 4)],
        [replace(5, -1, -1, 0, 10, ok=True), replace(6, -1, -1, 0, 10, ok=True)],
        [replace(6, 3, 5, 0, 1, ok=False)],
        [read(7, 0, 1)],
    ],
)
def test_histories_of_no_register_are_refused(history: list[Operation]) -> None:
    assert not is_linearizable(history)


@pytest.mark.parametrize("fsync", ["never", "commit"])
def test_offsets_under_sixteen_clients_whose_connections_are_cut_are_registers(
    fsync: str, rng: random.Random
) -> None:
    assert check(8, rng.randrange(10**9), fsync) > 500


def test_a_broker_that_now_and_then_reads_what_was_there_before_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, get, old = OffsetTable.put, OffsetTable.get, {}
    numbers = random.Random(1)

    def remembering(self: OffsetTable, *args: object) -> None:
        old[args[:3]] = get(self, *args[:3])  # type: ignore[arg-type]
        put(self, *args)  # type: ignore[arg-type]

    def forgetful(self: OffsetTable, *key: object) -> object:
        return old.get(key) if numbers.random() < 0.05 else get(self, *key)  # type: ignore[arg-type]

    monkeypatch.setattr(OffsetTable, "put", remembering)
    monkeypatch.setattr(OffsetTable, "get", forgetful)
    with pytest.raises(AssertionError, match="seed 7"):
        check(4, 7, "never")
