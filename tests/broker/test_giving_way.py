"""The interpreter changes hands more often while there is work in the background, and as before when it has ended."""

import sys
import threading

import pytest

from kafka_offsets.broker.giving_way import INTERVAL_S, giving_way


def test_the_interval_is_short_until_the_last_work_has_ended() -> None:
    usual = sys.getswitchinterval()
    assert usual > INTERVAL_S
    begun, may_end = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert may_end.wait(10)

    other = threading.Thread(target=giving_way, args=(first,))
    other.start()
    assert begun.wait(10)
    seen = []
    giving_way(lambda: seen.append(sys.getswitchinterval()))
    assert [*seen, sys.getswitchinterval()] == pytest.approx([INTERVAL_S, INTERVAL_S])
    may_end.set()
    other.join()
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_work_that_fails_ends_as_well() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        giving_way(lambda: [1 // 0])  # type: ignore[arg-type]
    assert sys.getswitchinterval() == pytest.approx(usual)
