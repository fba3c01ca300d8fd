"""Files: the few operations on files that are used, on a disk and in memory, and small files with checksums.

The same code runs on both. A file in memory is a list of blocks that never move (memory_content.py): an append copies
its bytes once, a Fetch sends a view of them. docs/log-format.md draws what a data directory holds. An open log holds
descriptors only while it is in use (descriptors.py).
"""
