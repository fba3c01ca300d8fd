"""`python -m tests.simulation.cluster.zookeeper SEED` runs a seed, or some of its steps by number."""

import sys

from tests.simulation.cluster.zookeeper.simulation import SIMULATION
from tests.simulation.engine import command

sys.exit(command(SIMULATION, __doc__))
