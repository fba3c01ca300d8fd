"""`python -m tests.replication.simulation SEED` runs a seed, or some of its steps by number; `--count` runs more."""

import sys

from tests.replication.simulation import simulation
from tests.seeds import command

sys.exit(command(simulation, "tests.replication.simulation", __doc__))
