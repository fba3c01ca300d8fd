"""Segments: the files of a log, one by one, and what of them is valid after a crash."""
