"""Cluster: what does one broker of several answer, and what does it leave to the others?"""
