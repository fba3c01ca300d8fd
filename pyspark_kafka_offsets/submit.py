"""What `spark-submit` runs for `kafka-offsets spark …`, as it takes files alone and tells them by `.py`.

It is no module of `kafka_offsets`: Python looks for modules beside the file that it runs first, where
`kafka_offsets/inspect` would stand for the `inspect` of the standard library.
"""

import sys

from kafka_offsets.cli import main

if __name__ == "__main__":
    sys.exit(main(["spark", *sys.argv[1:]]))
