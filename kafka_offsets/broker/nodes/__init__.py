"""Nodes: a broker as one of several processes, with an elected controller or ZooKeeper."""
