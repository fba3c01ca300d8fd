"""Tests of kafka_offsets/broker/api."""
