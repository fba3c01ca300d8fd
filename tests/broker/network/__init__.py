"""Tests of kafka_offsets/broker/network."""
