"""Tests of kafka_offsets/broker/partition."""
