"""Committed offsets: the table that holds them, the requests that read and change it, and their expiration."""
