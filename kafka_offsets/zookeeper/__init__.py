"""ZooKeeper: committed offsets and the metadata of a cluster as znodes, in Kafka's layouts. No groups, no log."""
