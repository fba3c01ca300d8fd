"""Metadata: which brokers exist, and what does each lead and follow?"""
