"""`python -m tests.simulation.cluster SEED` runs a seed, or some of its steps by number; `--count` runs more."""

import sys

from tests.seeds import command
from tests.simulation.cluster import simulation

sys.exit(command(simulation, "tests.simulation.cluster", __doc__))
