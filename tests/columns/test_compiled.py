"""When a process uses compiled loops. Tests with the fixture `each_loop` compare these with the steps of numpy."""

import sys

import pytest

from kafka_offsets.columns import compiled


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_chosen", None)
    monkeypatch.setattr(compiled, "_announced", 0)


def test_numba_is_imported_when_much_is_read() -> None:
    pytest.importorskip("numba")
    compiled.announce(compiled.LEAST_BYTES - 1)
    assert compiled.chosen() is None
    compiled.announce(1)
    assert compiled.chosen() is sys.modules["kafka_offsets.columns.compiled.loops"]


def test_steps_of_numpy_remain_in_use_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "kafka_offsets.columns.compiled.loops", raising=False)
    compiled.announce(compiled.LEAST_BYTES)
    assert compiled.chosen() is None
    assert not compiled.load()
