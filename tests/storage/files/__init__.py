"""Tests of kafka_offsets/storage/files."""
