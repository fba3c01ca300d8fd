"""Groups: the shards of groups, and transactional ids, from loading to expiration, on logs that are synced.

At the start each shard is the replay of its partition of the offsets topic. loading.py does it in one of two ways,
with one outcome, down to the order of topics:

- Record by record, as after a commit. This is the reference. It reports damage, and it needs no package.
- In columns, for logs from 1 MiB on if numpy is installed (the extra `fast`). storage/segments/segment_columns.py
  reads the segments 4 MiB at a time, columns/records.py finds keys and values of all records in them,
  columns/replay.py keeps the last one of each key and follows transactions, deletions and groups.
  coordinator/column_loader.py reads the rare other records, and puts what remains into the shard. A log that it does
  not understand goes through the other way. Both verify checksums.

Short logs are loaded before the broker listens, long ones afterwards, by a thread (shard_loader.py).
benchmarks/load.py compares both ways with Kafka's loader.

In memory the logs of the internal topics are cleaned as they double, the active segment included: dead_records.py
decides when, at the end of a turn, and storage/cleaner/memory_cleaning.py what stays. The offset table says which
offsets are in force, so that most batches are dropped by their headers. appends.py limits what all logs in memory take
together.

expiry.py takes the small decisions of coordinator/offsets/expiry.py, each after the previous one has taken effect.
transactions.py appends the next state of a transactional id to `__transaction_state`, writes the markers once it is
durable, and then the completion. A batch of a transaction, records or marker, goes into an offsets log by itself
(`TransactionalResult`); everything else of the turn shares batches. docs/transactions.md lists what is written when.
"""
