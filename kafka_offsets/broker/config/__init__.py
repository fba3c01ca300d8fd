"""Configuration: the keys of the broker, of topics and of groups, and how values are read."""
