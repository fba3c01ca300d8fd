"""Verification: what is damaged in a data directory, and what of it can be recovered?"""
