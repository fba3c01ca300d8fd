"""Tests of kafka_offsets/broker/gates."""
