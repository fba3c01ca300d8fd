"""Log compaction: which records are kept, and how cleaned segments replace the old ones.

compaction.py is one round of cleaning, as a generator: offset_map.py finds the last offset of each key (in columns:
columns/cleaning.py), cleaner_filter.py what is kept of each batch, swap.py replaces the old segments by the new one. A
step takes a millisecond or two. Steps that wait for the disk, and batches of more than 64 KiB, run in another thread.
Compaction does not touch committed offsets in memory.
"""
