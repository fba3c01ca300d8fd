"""Replicas, a controller and a network in virtual time: does what was acknowledged survive?

node        a broker with one replica: a log that may lose what is not flushed, kafka_offsets/replication, and a clock
controller  registrations, sessions, elections; its metadata reaches the nodes late, or twice
network     delays, reorders, loses and repeats messages; links and nodes are cut off
history     what was visible below any high watermark, and what was acknowledged: the judge
world       one run: nodes, controller and network, driven by steps
simulation  seeds become plans and steps
"""
