"""Records of the offsets log as Arrow batches: from segment files, from Hadoop, or from a live cluster."""
