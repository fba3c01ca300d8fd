"""Tests of kafka_offsets/storage/directory."""
