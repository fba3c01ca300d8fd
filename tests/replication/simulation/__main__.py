"""`python -m tests.replication.simulation SEED` runs a seed, or some of its steps by number; `--count` runs more."""

import sys

from tests.replication.simulation.simulation import SIMULATION
from tests.simulation.engine import command

sys.exit(command(SIMULATION, __doc__))
