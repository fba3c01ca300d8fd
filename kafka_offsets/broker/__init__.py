"""Broker: the logs, topics, connections and sockets around the coordinator's decisions."""
