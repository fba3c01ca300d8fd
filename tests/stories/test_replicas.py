"""replicas.txt: what three real nodes answered can be read, and each situation has a script that a cluster can play.

The situations about groups and transactions: test_replica_groups.py.
"""

import difflib
import select
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from tests.differential.brokers import ADMIN, PATIENCE_MS, NoAnswerError, RemoteBroker, RemoteLine
from tests.differential.stories import CLUSTER, file_of
from tests.stories.replica_groups import SITUATIONS as ABOUT_GROUPS
from tests.stories.replicas import FILE, SETTINGS, SITUATIONS, ClusterPlay, stored

ONE = "aborted_transactions=null records=<0 time=1700000000000 epoch=0 : one=one>"
OTHERWISE = {
    "a replica that leaves an ISR of the minimum size stays eligible": [
        "-node3 NONE responses=[$slug partitions=[0 OFFSET_OUT_OF_RANGE high_watermark=-1 aborted_transactions=null]]",
        "+node3 NONE responses=[",
        f"+  $slug partitions=[0 NONE high_watermark=1 last_stable_offset=1 log_start_offset=0 {ONE}]",
        "+]",
    ]
}
"""Where our cluster answers otherwise: a follower of Kafka that has just continued refuses consumers for a moment."""


STEP_MS, LISTEN_S = 50, 0.01
"""A client listens for so long, then lets so much of the cluster's time pass, and listens again."""


class OwnLine(RemoteLine):
    """A connection to a node of our cluster; the cluster's time passes while it waits for an answer."""

    def __init__(self, clock: ManualClock, address: tuple[str, int]) -> None:
        super().__init__(address)
        self.clock = clock

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        end_ms = self.clock.now().mono_ms + patience_ms
        while not select.select([self.socket], [], [], LISTEN_S)[0]:
            if self.clock.now().mono_ms >= end_ms:
                raise NoAnswerError
            self.clock.advance(STEP_MS)
        return super().receive(patience_ms)


class OwnNode(RemoteBroker):
    """A node of our cluster; its clock is that of the cluster."""

    def __init__(self, clock: ManualClock, host: str, port: int) -> None:
        super().__init__(host, port)
        self.clock = clock

    def connect(self, user: str = ADMIN) -> RemoteLine:
        self.lines.append(OwnLine(self.clock, self.address))
        return self.lines[-1]

    def pause(self, ms: int) -> None:
        self.clock.advance(ms)


class OwnCluster:
    """Our cluster in place of kafka-cluster.sh."""

    directory = ""

    def __init__(self, cluster: Cluster, clock: ManualClock) -> None:
        self.cluster, self.clock = cluster, clock
        self._nodes: list[OwnNode] = []

    def broker(self, node: int) -> OwnNode:
        found = self.cluster.nodes[node - 1]
        self._nodes.append(OwnNode(self.clock, found.host, found.port))
        return self._nodes[-1]

    def hang_up(self) -> None:
        """Close the connections of a situation."""
        for node in self._nodes:
            node.close()

    def do(self, verb: str, directory: str, node: str) -> None:
        cluster = self.cluster
        verbs = {
            "kill": cluster.kill,
            "restart": cluster.start_node,
            "pause": cluster.pause,
            "continue": cluster.resume,
        }
        verbs[verb](int(node))


@pytest.fixture(scope="module")
def own() -> Iterator[OwnCluster]:
    """One cluster for all situations, which are played in their order; kafka-cluster.sh sets the minimum too."""
    clock = ManualClock()
    with Cluster(SETTINGS | {"min.insync.replicas": 2}, clock=clock) as cluster:
        yield OwnCluster(cluster, clock)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in ABOUT_GROUPS])
def test_our_cluster_answers_as_three_nodes_of_kafka(own: Any, name: str) -> None:
    play = ClusterPlay(own, name)
    try:
        SITUATIONS[name](play)
    finally:
        own.hang_up()
    kafka, ours = (file_of({name: events}).splitlines() for events in (stored()[name], play.events))
    compared = difflib.unified_diff(kafka, ours, lineterm="", n=0)
    different = [line for line in compared if line[:2] not in ("--", "++", "@@")]
    assert different == OTHERWISE.get(name, [])


def test_each_situation_is_recorded_in_the_order_of_the_scripts() -> None:
    assert [*stored()] == [*SITUATIONS]


def test_reading_the_file_and_writing_it_again_gives_the_file() -> None:
    assert file_of(dict(stored())) == FILE.read_text(encoding="utf-8")


def test_what_happens_to_the_nodes_is_among_the_requests() -> None:
    events = stored()["a follower hangs: acks=all times out until it leaves the ISR"]
    assert [event for event in events if event[0] == CLUSTER] == [
        [CLUSTER, "pause node 3"],
        [CLUSTER, "continue node 3"],
    ]
