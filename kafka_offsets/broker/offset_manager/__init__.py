"""Offset manager: where are committed offsets stored, in the log of the offsets topic or in ZooKeeper?

interface.py states it, and each broker has one implementation. The default (log_manager.py) is a view of the shards and
their logs; it has no state. With `offset.storage=zookeeper`, zookeeper_manager.py reads znodes before a fetch is
answered, and zookeeper_shard.py is a shard that writes the offsets of a decision to ZooKeeper before the decision takes
effect. Work on znodes is a generator that yields requests and receives outcomes (zookeeper/operations.py): the broker,
`offsets migrate` and tests run the same ones. docs/zookeeper.md says what users see.
"""
