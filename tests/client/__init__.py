"""Tests of what talks to a broker."""
