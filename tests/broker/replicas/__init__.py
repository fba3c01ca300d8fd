"""Tests of kafka_offsets/broker/replicas."""
