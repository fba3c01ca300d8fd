"""`kafka-offsets serve` with the same options, and the offsets topic compacted every 50 ms, active segments included.

The next compaction is asked for 50 ms after the last one was, or when that has ended.
"""

import sys
from concurrent.futures import Future

from kafka_offsets import cli
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.broker.partition.forced_compaction import Answer
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import Now

EVERY_MS = 50
FAILED = "the forced compaction failed"


def _force(core: BrokerCore, under_way: Future[Answer] | None = None) -> None:
    if under_way is not None and under_way.done():
        problem = under_way.exception()
        if isinstance(problem, RuntimeError) and "was stopped" in str(problem):
            return
        told = [problem] if problem is not None else [each.error for each in under_way.result().values()]
        for error in filter(None, told):
            sys.stderr.write(f"{FAILED}: {error}\n")
            sys.stderr.flush()
        under_way = None
    if under_way is None and core.shards.topic_exists:
        under_way = core.compact(OFFSETS_TOPIC, include_active=True)

    def again(now: Now) -> None:
        _force(core, under_way)

    core.scheduler.pause(EVERY_MS, again)


def _on_loaded(core: BrokerCore) -> None:
    _LOADED(core)
    _force(core)


_LOADED = BrokerCore.on_loaded

if __name__ == "__main__":
    BrokerCore.on_loaded = _on_loaded  # type: ignore[method-assign]
    sys.exit(cli.main(["serve", *sys.argv[1:]]))
