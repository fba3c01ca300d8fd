"""The thread of an elected controller, and what ends it."""

import logging
from typing import Any

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.nodes.elected_controller import ElectedController
from kafka_offsets.errors import StorageError
from kafka_offsets.zookeeper.cluster_changes import ControllerTerm


class FailingSession:
    """A session whose steps end with an error."""

    is_connected = True

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self, wanted: object, timeout_s: float) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [StorageError("damaged"), KeyError("user")], ids=["damage", "a defect"])
def test_a_controller_that_cannot_load_resigns(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Else /controller would remain that of a broker which serves no metadata."""
    ends: list[bool] = []
    session: Any = FailingSession(error)
    controller = ElectedController(
        session,
        ControllerTerm(1, 1, 1),
        "c",
        Config(),
        ("127.0.0.1", 0),
        lambda port: None,
        lambda: ends.append(True),
    )
    controller.start([1], None)
    controller.join()
    assert ends == [True]
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
    assert "broker 1 cannot be the controller" in caplog.text
