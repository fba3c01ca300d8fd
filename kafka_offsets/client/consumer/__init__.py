"""Consumer: subscriptions, membership in a group, positions and fetching, in one thread."""
