"""Tests of kafka_offsets/coordinator/state."""
