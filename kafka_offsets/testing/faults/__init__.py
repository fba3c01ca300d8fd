"""Faults: errors, delays, closed connections and failing disks that a test injects into a broker."""
