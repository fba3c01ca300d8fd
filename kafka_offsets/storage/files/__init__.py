"""Files: the few operations on files that are used, on a disk and in memory, and small files with checksums."""
