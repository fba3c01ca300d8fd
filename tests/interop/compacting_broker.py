"""`kafka-offsets serve` with the same options, and the offsets topic compacted every 50 ms, active segments included.

The next compaction is asked for 50 ms after the last one was, or when that has ended.
"""

import sys
from concurrent.futures import Future

from kafka_offsets import cli
from kafka_offsets.broker.partition.forced_compaction import Answer, force_compaction
from kafka_offsets.broker.partition.log_cleaner import LogCleaner
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import Now

EVERY_MS = 50
FAILED = "the forced compaction failed"


def _force(cleaner: LogCleaner, under_way: Future[Answer] | None = None) -> None:
    if under_way is not None and under_way.done():
        problem = under_way.exception()
        if isinstance(problem, RuntimeError) and "was stopped" in str(problem):
            return
        told = [problem] if problem is not None else [each.error for each in under_way.result().values()]
        for error in filter(None, told):
            sys.stderr.write(f"{FAILED}: {error}\n")
            sys.stderr.flush()
        under_way = None
    if under_way is None and cleaner.topics.get(OFFSETS_TOPIC) is not None:
        under_way = force_compaction(cleaner, OFFSETS_TOPIC, include_active=True)

    def again(now: Now) -> None:
        _force(cleaner, under_way)

    cleaner.scheduler.pause(EVERY_MS, again)


def _start(cleaner: LogCleaner) -> None:
    _START(cleaner)
    _force(cleaner)


_START = LogCleaner.start

if __name__ == "__main__":
    LogCleaner.start = _start  # type: ignore[assignment, method-assign]
    sys.exit(cli.main(["serve", *sys.argv[1:]]))
