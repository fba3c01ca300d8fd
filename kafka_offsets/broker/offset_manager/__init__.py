"""Offset manager: where committed offsets are stored, in the log of the offsets topic or in ZooKeeper."""
