"""Verification and repair: what is damaged in a directory, and what of it can be recovered."""
