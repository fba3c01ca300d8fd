"""Tests of `kafka_offsets.diagnosis`."""
