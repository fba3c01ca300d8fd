"""Tests of kafka_offsets/broker/offset_manager."""
