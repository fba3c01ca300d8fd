"""One log: segments, indexes, opening after a crash, and the files beside the segments."""
