"""Coordinators on logs: shards of groups, and transactional ids, from loading to expiration."""
