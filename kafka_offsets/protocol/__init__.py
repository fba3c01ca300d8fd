"""Bytes to values and back: pure, no sockets, no files, no clock."""
