"""Classic groups: members, generations and rebalances of the JoinGroup protocol."""
