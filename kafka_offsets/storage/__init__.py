"""Bytes on disk: files, segments, logs, the data directory."""
