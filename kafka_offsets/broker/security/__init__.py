"""Security of a broker: which listeners are there, and what may a connection send before it has a principal?"""
