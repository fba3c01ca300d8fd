"""Topics, partitions, configuration, and the answers of the broker."""
