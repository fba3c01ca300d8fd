"""The servers of brokers for tests."""
