"""Whole brokers of a cluster whose metadata is in ZooKeeper: how often each step happens."""

from functools import partial

from tests.simulation.cluster import simulation
from tests.simulation.cluster.simulation import opened, plan_of
from tests.simulation.cluster.zookeeper.world import ZooKeeperWorld
from tests.simulation.engine import Simulation

WEIGHTS = {
    **simulation.WEIGHTS,
    "time": 70,
    "kill": 1.5,
    "power": 1.5,
    "stop": 1.5,
    "start": 20,
    "isolate": 3.5,
    "cut": 2,
    "heal": 14,
    "release": 8,
    "resume": 12,
    "expire": 1.5,
    "away": 1,
}
"""More time passes between faults: a node that is back waits for the end of its session, and for a controller."""

SIMULATION = Simulation(
    "tests.simulation.cluster.zookeeper", plan_of, WEIGHTS, 60, partial(opened, ZooKeeperWorld), tries=300
)
