"""What a real broker and ours answer to the same situations; see docs/differences.md for where they differ."""
