"""The world around the decisions: logs, topics, connections, sockets."""
