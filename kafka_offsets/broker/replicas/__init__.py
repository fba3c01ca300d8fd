"""Replicas: how do records reach the replicas of a partition, and when may a client see them?

A single broker has none. In a cluster, the coordinator of a commit leads the partition of the offsets topic:

1. broker/cluster/apis.py finds the leader of the group's partition in the metadata; every other broker answers
   NOT_COORDINATOR, or with `offsets.forward=true` passes the request on to that leader (broker/cluster/forwarding.py),
   in an Envelope with the principal and the address of the client (envelopes.py). A client that gives up may commit a
   later offset at another broker. So nothing of a closed connection is passed on or decided, nothing is passed on
   while the controller may have fenced this broker, and what is answered too late is withdrawn.
2. The append does not compare the ISR with `min.insync.replicas`: as in Kafka, the coordinator writes with `acks=1`,
   and the high watermark does not move while the ISR is too small.
3. After the append the commit waits (broker/groups/runtime.py) for the high watermark. After
   `offsets.commit.timeout.ms` it gets COORDINATOR_NOT_AVAILABLE, and may take effect later.
4. Each follower has a Fetch parked at the leader (fetcher.py, one for each leader that it follows), which the append
   wakes. The follower appends the batches as they are, with the leader's offsets and epochs.
5. Its next Fetch has its new log end offset: manager.py passes it to replication/leader.py. The smallest log end
   offset of the ISR is the high watermark, and the response takes it to the follower.
6. When the high watermark passes the batch, the shard replays it, and the response leaves.

If the leader dies, metadata/controller.py elects an in-sync replica in a new leader epoch, and each broker gets the
change as a delta of its image. coordinators.py loads the shard at the new leader. When the old one returns, it
follows: its first Fetch has the last epoch of its log, the leader answers where that ends, and the follower truncates
there (replication/divergence.py, KIP-101, KIP-595). Followers do not send OffsetForLeaderEpoch; clients do. A follower
that lags leaves the ISR: the leader proposes that to the controller (KIP-497).
"""
