"""Tests of what tests of other projects import."""
