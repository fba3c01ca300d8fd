"""Tests of kafka_offsets/broker/turn."""
