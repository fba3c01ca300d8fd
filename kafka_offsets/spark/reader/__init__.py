"""Records of the offsets log as Arrow batches: from segment files or from a live cluster."""
