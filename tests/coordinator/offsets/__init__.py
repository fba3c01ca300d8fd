"""Tests of kafka_offsets/coordinator/offsets."""
