"""Streams whose source is in Python: Spark gives its process 10 s to start, and no setting changes that."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

DEADLINE_S = 300


def run_to_end(start: Callable[[], "StreamingQuery"]) -> bool:
    """Return whether a query ended; start it again, a sink in memory with a new checkpoint, if its process was late."""
    from pyspark.errors import StreamingQueryException

    while True:
        try:
            return bool(start().awaitTermination(DEADLINE_S))
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
