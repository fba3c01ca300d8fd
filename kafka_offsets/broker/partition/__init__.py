"""Partitions of topics: their logs, their producers, and the background work on logs."""
