"""Replicas: how do records reach the replicas of a partition, and when may a client see them?"""
