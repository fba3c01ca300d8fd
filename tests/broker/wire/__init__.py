"""Tests of kafka_offsets/broker/wire."""
