"""Tests of kafka_offsets/broker/config."""
