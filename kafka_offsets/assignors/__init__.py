"""Assignors: who reads which partition of a classic group, and the bytes by which its members agree."""
