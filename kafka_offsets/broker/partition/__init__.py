"""Partitions of topics: their logs, their producers, and what the broker does to logs in the background."""
