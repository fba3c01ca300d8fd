"""Log compaction: which records are kept, and how cleaned segments replace the old ones."""
