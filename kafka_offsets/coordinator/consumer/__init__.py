"""Consumer groups (KIP-848): members, epochs and assignments that the coordinator computes."""
