"""Kafka offset management and group coordination in pure Python."""
