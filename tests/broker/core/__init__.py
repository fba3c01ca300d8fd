"""Tests of kafka_offsets/broker/core."""
