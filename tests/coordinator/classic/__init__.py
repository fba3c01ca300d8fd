"""Tests of kafka_offsets/coordinator/classic."""
