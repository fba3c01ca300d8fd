"""Storage: what crashes, faults of the disk, flipped bits and other systems leave of it."""
