"""Drivers of tests, one a level.

shard         a shard without a broker: decisions, a log in memory, time
core          a broker without sockets: frames in, frames out, turns and time
wire          any broker on a socket: frames written by hand
transactions  a transactional producer and a reader, on `core`
members       members of groups, on `core`
partitions    producing and fetching clients, on `core`
"""
