"""Whole brokers, a controller and clients in virtual time: does the cluster keep what it has acknowledged?

plan        what is the same for all steps of a seed
network     connections between nodes, and of clients: frames in order, late, lost with their connection
metadata    the controller's changes reach each node late; nodes that it does not reach are fenced
node        one broker with files that crash, a clock that drifts, and a mirror of its logs
clients     producers, commits, members of a group: what they may conclude from each answer
world       one run: nodes, controller, network and clients, driven by steps
simulation  seeds become plans and steps
"""
