"""Sets what makes the tests the same in every run, before they are imported, and starts the campaign."""

import os
import sys

os.environ |= {
    "HYPOTHESIS_PROFILE": "mutation",
    "KAFKA_OFFSETS_SEED": "1",
    "KAFKA_OFFSETS_SIMULATION_SEEDS": "30",
}

from tests.mutation.campaign import main

sys.exit(main())
