"""`python -m tests.simulation SEED` runs a seed, or some of its steps by number; `--count` runs seeds from it on."""

import sys

from tests.simulation.engine import command
from tests.simulation.simulation import SIMULATION

sys.exit(command(SIMULATION, __doc__))
