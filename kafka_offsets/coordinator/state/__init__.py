"""State: what does a shard hold, and which records store it? Groups, the offset table, timers and results."""
