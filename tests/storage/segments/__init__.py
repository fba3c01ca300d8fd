"""Tests of kafka_offsets/storage/segments."""
