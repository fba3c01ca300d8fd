"""What Apache Kafka answers, as text: a file an area, the readers and players of these files, their recorder."""
