"""Whole brokers, clients and ZooKeeper in virtual time: does the cluster keep what it has acknowledged?

threads     greenlets that wait for each other while time passes
loops       an event loop for one of them
streams     connections: in order, late, lost; and the sockets at their ends
server      ZooKeeper: the znodes, sessions that expire, a server that is away
client      a client of it as kazoo is one, and the session of a broker
node        one broker with its part in the election, its link to the controller, and the controller that it may be
world       one run, and what ZooKeeper may have
simulation  seeds become plans and steps
"""
