"""`python -m tests.simulation.cluster.zookeeper SEED` runs a seed, or some of its steps by number."""

import sys

from tests.seeds import command
from tests.simulation.cluster.zookeeper import simulation

sys.exit(command(simulation, "tests.simulation.cluster.zookeeper", __doc__))
