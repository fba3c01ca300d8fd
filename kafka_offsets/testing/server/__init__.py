"""The servers of brokers for tests, and what they record: requests, events, and what consumers fetch."""
