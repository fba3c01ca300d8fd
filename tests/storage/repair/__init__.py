"""Tests of kafka_offsets/storage/repair."""
