"""APIs: what does each API answer? One file for a family, with Kafka's names."""
