"""Tests of kafka_offsets/broker/groups."""
