"""The short form of `make zookeeper-kill-loop`: each thing that happens to ZooKeeper, once."""

from pathlib import Path

import pytest

from tests.zookeeper import kill_loop
from tests.zookeeper.real import need_server

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_server()
    loop = kill_loop.KillLoop(tmp_path, seed=1)
    try:
        for happening in kill_loop.HAPPENINGS:
            monkeypatch.setattr(kill_loop, "HAPPENINGS", (happening,))
            shown = loop.round()
            assert shown.happening == happening and shown.codes[0] > 0
    finally:
        loop.close()
