"""Committed offsets: the requests that read and change them, and their expiration.

requests.py decides decoded requests. shapes.py cuts a commit whose topics, partitions and metadata were seen before
into numbers, and copies them into records and into rows of the table; the checks are the same functions.

expiry.py decides which offsets and groups expire, past their retention or with their topic, as a generator of small
decisions over one shard. A decision that is under way (a commit that waits for the disk) is considered before a
tombstone is written. (Compaction is something else: it removes from the log what was replaced or deleted. Expiration
decides that something is deleted.)
"""
