"""Tests of kafka_offsets/coordinator/transactions."""
