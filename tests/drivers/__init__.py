"""Drivers of tests, one a level: a shard without a log, a broker without sockets, a broker on a socket."""
