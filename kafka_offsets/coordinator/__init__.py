"""Decisions about groups and offsets: pure; the time and all randomness are arguments."""
