"""Quotas: how much may a client send, read and change, and for how long is it throttled when that was too much?"""
