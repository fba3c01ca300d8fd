"""The log on disk and in memory, and what a crash leaves of it."""
