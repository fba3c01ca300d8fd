"""State: what does a shard hold, and which records store it? Groups, the offset table, timers and results.

Committed offsets are rows of bytes in pages, not objects (offset_table.py). Where a group has one partition of a
topic, its row shares a block with rows of other groups (packed_rows.py). A group that only has offsets has no object
(groups.py).
"""
