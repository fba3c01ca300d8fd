"""Committed offsets: the table that holds them, the requests that change it, and their expiry."""
