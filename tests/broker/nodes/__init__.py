"""Tests of kafka_offsets/broker/nodes."""
