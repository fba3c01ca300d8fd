"""Tests of kafka_offsets/coordinator/consumer."""
