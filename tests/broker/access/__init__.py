"""Tests of kafka_offsets/broker/access."""
