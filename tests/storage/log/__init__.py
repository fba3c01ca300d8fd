"""Tests of kafka_offsets/storage/log."""
