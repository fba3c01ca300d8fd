"""The interpreter changes hands more often while there is work in the background, and as before when it has ended."""

import sys
import threading
from collections.abc import Iterator

import pytest

from kafka_offsets.broker.turn import switch_interval as module
from kafka_offsets.broker.turn.switch_interval import INTERVAL_S, switch_interval


@pytest.fixture(autouse=True)
def _nobody_else_is_at_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not even a broker that another test has left."""
    before = sys.getswitchinterval()
    monkeypatch.setattr(module, "_at_work", 0)
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_the_interval_is_short_until_the_last_work_has_ended() -> None:
    usual = sys.getswitchinterval()
    begun, may_end = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert may_end.wait(10)

    other = threading.Thread(target=switch_interval, args=(first,))
    other.start()
    assert begun.wait(10)
    seen = []
    switch_interval(lambda: seen.append(sys.getswitchinterval()))
    assert [*seen, sys.getswitchinterval()] == pytest.approx([INTERVAL_S, INTERVAL_S])
    may_end.set()
    other.join()
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_work_that_fails_ends_as_well() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        switch_interval(lambda: [1 // 0])  # type: ignore[arg-type]
    assert sys.getswitchinterval() == pytest.approx(usual)
