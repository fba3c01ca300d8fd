"""APIs: the table of those that are served, and a handler for each of them."""
