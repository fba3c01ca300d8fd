"""Turn: when does work run? Deadlines, background tasks and worker threads of the broker's one loop.

All deadlines and pauses are in one heap (scheduler.py). The deadlines that are due take about 10 ms together, then the
requests that have arrived are decided.

What takes more than a few milliseconds is a generator that a `BackgroundTask` runs step by step: compaction,
retention, expiration, the opening of logs, large requests (broker/context/incremental.py). A step yields what the next
one waits for: a pause, a worker thread, or an event. Compaction, retention and expiration pause six times as long as
their last step while requests arrive, and one millisecond while none do; a pause of expiration has at most 20 ms. The
others always pause for the same time, 1 to 5 ms.

The loop is the only thread that changes the broker's state. The others wait for the disk, or work on what the loop
does not touch in the meantime:

kafka-offsets             the event loop of an embedded `Broker`; `serve` uses the main thread
kafka-offsets-sync        fsyncs of logs that have grown
kafka-offsets-background  one piece of work after the other: files that no request waits for, large batches for the
                          cleaner, the opening of a long log, for which requests for the partition wait
kafka-offsets-load        up to four threads replay the long logs of shards, the shortest first, and a shorter log next
                          to a longer one. Until a log is replayed, its shard belongs to its thread, and its groups get
                          COORDINATOR_LOAD_IN_PROGRESS
kafka-offsets-zookeeper   `serve --zookeeper`: the session of this broker, and its part in the election; threads of
                          kazoo hand outcomes over to the loop, or to this one
kafka-offsets-controller  `serve --zookeeper`, at the elected broker: the controller, and the endpoint that serves the
                          metadata
kafka-offsets-asks        in commands: up to 16 threads ask the brokers of a cluster at the same time
kafka-offsets-http        `serve --http`: up to 64 threads execute requests, since some wait for a broker
kafka-offsets-assert      `serve --http`: up to 256 threads for requests that wait for something to happen
kafka-offsets-parent      `serve --with-parent` and `exec`: waits for the end of the parent, then sends SIGTERM
kafka-offsets-log         writes the log of `serve` to standard error

At a stop, up to eight threads sync and close logs. Metrics have one thread that listens, and one for each HTTP
request. Python's switch interval is shorter while a background thread works (switch_interval.py), so
that the loop gets the interpreter back soon.
"""
