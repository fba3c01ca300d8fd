"""Commits to a cluster over ZooKeeper while brokers and ZooKeeper are killed and paused: nothing acknowledged is lost.

    python -m tests.zookeeper.cluster_loop --rounds 50 --seed 1

In each round clients commit without a pause, and one thing happens to the controller, another broker, or ZooKeeper.
Afterwards all replicas are in sync again. Each group has an offset that its client sent, not before the last one that
was acknowledged, the same in all partitions; a topic that a broker said to have created exists.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from kafka_offsets.errors import ConnectionLostError
from tests.zookeeper.cluster import (
    OFFSETS,
    SESSION_MS,
    TOPIC,
    ZooKeeperCluster,
    committing,
    until_all_more,
    until_true,
)
from tests.zookeeper.real import RealServer
from tests.zookeeper.rounds import run_rounds

HAPPENINGS = (
    "kill the controller",
    "kill another broker",
    "pause the controller",
    "pause another broker",
    "kill ZooKeeper",
    "pause ZooKeeper",
    "delete the controller",
)


class ClusterLoop:
    """A server, three brokers on it, and their clients."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._server = RealServer(directory / "zookeeper")
        self._server.start()
        self._cluster = ZooKeeperCluster(directory, self._server, "")
        assert self._cluster.create_topic(TOPIC)[0] == 0
        self._created: list[str] = []
        self.acknowledged = 0

    def round(self, number: int, happening: str | None = None) -> str:
        """Let one thing happen while clients commit, and check; return what has happened."""
        cluster = self._cluster
        happening = happening or self._random.choice(HAPPENINGS)
        committers = committing(cluster, prefix=f"round-{number}")
        until_all_more(committers)
        cluster.until_in_sync(TOPIC, OFFSETS)
        controller = cluster.controller()
        concerned = controller if "controller" in happening else controller % 3 + 1
        if happening.startswith("kill") and "ZooKeeper" not in happening:
            cluster.brokers[concerned].kill()
            until_all_more(committers)
            cluster.start(concerned)
        elif happening.startswith("pause") and "ZooKeeper" not in happening:
            cluster.pause(concerned)
            time.sleep(self._random.uniform(0.3, 2.5) * SESSION_MS / 1000)
            cluster.resume(concerned)
        elif happening == "delete the controller":
            tool = cluster.tool()
            tool.delete("/controller")
            tool.stop()
            tool.close()
        elif happening == "pause ZooKeeper":
            os.kill(self._server.pid, signal.SIGSTOP)
            time.sleep(self._random.uniform(0.3, 2.5) * SESSION_MS / 1000)
            os.kill(self._server.pid, signal.SIGCONT)
        else:
            self._server.kill()
            time.sleep(self._random.choice([0.0, 0.5, SESSION_MS / 1000 + 0.5]))
            until_all_more(committers)
            self._server.start()
        self._create(f"topic-{number}")
        until_all_more(committers)
        cluster.until_in_sync(TOPIC, OFFSETS, *self._created)
        for committer in committers:
            committer.check()
            self.acknowledged += committer.acknowledged
        for broker in cluster.brokers.values():
            broker.assert_clean_log()
        return happening

    def _create(self, name: str) -> None:
        """Create a topic as soon as the metadata can be changed again."""

        def is_created() -> bool:
            try:
                code, _ = self._cluster.create_topic(name, 1)
            except ConnectionLostError:
                return False
            return code in (0, 36)  # TOPIC_ALREADY_EXISTS: an answer was lost

        until_true(is_created, f"{name} can be created")
        self._created.append(name)

    def close(self) -> None:
        """Stop everything."""
        try:
            self._cluster.stop()
        finally:
            self._server.stop()


def play(loop: ClusterLoop, number: int) -> tuple[str, str]:
    """Play a round; return what happened, and its result."""
    return loop.round(number), f"{loop.acknowledged} commits so far"


if __name__ == "__main__":
    run_rounds(__doc__, ClusterLoop, play, sys.argv[1:])
