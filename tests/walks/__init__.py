"""Random walks: requests drawn from a seed, asked of a real Kafka and of ours; both answer alike. `make walks`."""
