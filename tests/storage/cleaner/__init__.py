"""Tests of kafka_offsets/storage/cleaner."""
