"""Clusters of real processes, under clients whose histories are checked after kills, stops, pauses and partitions."""
