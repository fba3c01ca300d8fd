"""replica_groups.py: our cluster answers as three nodes of Kafka did.

Not played: situations that last for more than ten seconds, which wait for the timeouts of coordinators.
"""

import re
from contextlib import closing

import pytest

from kafka_offsets.testing import Cluster
from tests.differential.brokers import RemoteBroker
from tests.differential.stories import file_of
from tests.stories.replica_groups import SITUATIONS
from tests.stories.replicas import SETTINGS, ClusterPlay, stored

OWN_SETTINGS = SETTINGS | {
    "profile": "kafka",
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
}
PLAYED = (
    "a node refuses the groups and transactions that another one coordinates",
    "a consumer group outlives its coordinator",
    "a transaction outlives the coordinators of its id and of its group",
    "the controller dies: coordinators continue, with another controller",
    "consumers fetch from followers since version 11",
)
_NUMBERED = re.compile(r"#\d+|\bP\d+\b")
_COORDINATOR_EPOCH = re.compile(r"\[\[(true|false), \d+\]\]")


class OwnCluster:
    """Three nodes of ours, with what a script does to nodes."""

    directory = ""

    def __init__(self, running: Cluster) -> None:
        self._running = running
        self._brokers: list[RemoteBroker] = []

    def do(self, verb: str, *arguments: str) -> None:
        """Kill or restart a node."""
        node = int(arguments[-1])
        if verb == "kill":
            self._running.kill(node)
        else:
            assert verb == "restart"
            self._running.start_node(node)

    def broker(self, node: int) -> RemoteBroker:
        """Return a node to connect to."""
        found = next(each for each in self._running.nodes if each.id == node)
        self._brokers.append(RemoteBroker(found.host, found.port))
        return self._brokers[-1]

    def close(self) -> None:
        """Close all connections."""
        for broker in self._brokers:
            broker.close()


def comparable(text: str) -> str:
    """Return a story with ids numbered by their appearance, and markers without the epoch of their coordinator."""
    numbers: dict[str, str] = {}
    numbered = _NUMBERED.sub(lambda found: numbers.setdefault(found[0], f"{found[0][0]}{len(numbers)}"), text)
    return _COORDINATOR_EPOCH.sub(r"[[\1]]", numbered)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_a_cluster_answers_as_kafka(name: str) -> None:
    with Cluster(OWN_SETTINGS) as running, closing(OwnCluster(running)) as own:
        play = ClusterPlay(own, name)  # type: ignore[arg-type]
        SITUATIONS[name](play)
    assert comparable(file_of({name: play.events})) == comparable(file_of({name: stored()[name]}))
