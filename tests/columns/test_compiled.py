"""When a process uses compiled loops. Tests with the fixture `each_loop` compare these with the steps of numpy."""

import sys
from pathlib import Path

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


def test_steps_of_numpy_remain_in_use_where_numba_refuses_numpy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """numba raises ImportError, without the name of a module, for a numpy that is later than it knows."""
    (tmp_path / "numba.py").write_text('raise ImportError("Numba needs NumPy 2.5 or less. Got NumPy 2.6.")')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.delitem(sys.modules, "kafka_offsets.columns.compiled.loops", raising=False)
    with pytest.warns(RuntimeWarning, match="compiled loops are not used: Numba needs NumPy 2.5 or less"):
        compiled.announce(compiled.LEAST_BYTES)
    assert compiled.chosen() is None
