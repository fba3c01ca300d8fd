"""`python -m kafka_offsets` is the command `kafka-offsets`, of this Python."""

import sys

from kafka_offsets.cli import main

if __name__ == "__main__":
    sys.exit(main())
