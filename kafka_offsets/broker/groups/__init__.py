"""Groups: the shards of groups, and transactional ids, from loading to expiration, on logs that are synced."""
