"""`python -m tests.simulation SEED` runs a seed, or some of its steps by number; `--count` runs seeds from it on."""

import sys

from tests.seeds import command
from tests.simulation import simulation

sys.exit(command(simulation, "tests.simulation", __doc__))
