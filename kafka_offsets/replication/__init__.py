"""Replication of one partition: which records does every replica have, and which of them may a client see?

Pure: state, message and time in, decisions out. The room knows Kafka's error codes and nothing else: no log, no socket,
no clock. A broker calls it and carries out what it decides.

partition_state  what the controller has decided: replicas, ISR, leader, epochs
elections        the controller's decisions: who leads, who is in the ISR, which replicas come and go
leader           the leader's: high watermark, ISR proposals, acknowledgements
follower         the follower's: where to fetch, what to append, where to truncate
divergence       where two logs part: the leader's and the follower's side of truncation

Sources: KIP-101, KIP-279, KIP-497, KIP-595, KIP-903, KIP-966; Kafka 4.3.1.
"""
