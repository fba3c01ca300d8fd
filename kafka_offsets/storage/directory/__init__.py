"""Data directory: which logs are there, and the files beside them."""
