"""APIs: the table of all APIs that the broker serves, and their handlers."""
