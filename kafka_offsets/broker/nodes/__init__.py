"""Nodes: how does a broker take part in a cluster whose brokers are processes, and who starts them?

A broker of a cluster knows its metadata through a `ClusterMembership` (metadata/membership.py). In a test that is a
call to the controller (metadata/in_process.py). With `serve --brokers` the controller is in the parent process, and
metadata/remote_membership.py exchanges messages with metadata/controller_service.py. Both are pure; here are the
sockets and the processes:

1. supervisor.py, in the parent, opens metadata_file.py, listens with controller_endpoint.py, and starts a process for
   each broker.
2. node_process.py reads its order from standard input, whose end tells it that the parent is gone. node_server.py
   takes a port and registers through controller_link.py.
3. When all have registered, each receives the image, leads and follows what that says, and lets clients connect.
   Brokers reach each other through broker/network/tcp_channel.py. These connections, and those to the controller, are
   encrypted and log in as broker/access/inter_broker.py says.
4. metadata/controller.py saves each change in a `ClusterStore` (metadata/store.py) before it makes it. Then every
   broker receives it as a delta; the broker that has requested it, before the response.

What a handler must know at once, such as a created topic, blocks the broker on that socket. A request that only the
controller decides waits before that, without blocking, until the controller has answered a heartbeat. Changes that
come before the response are made in the meantime, but not while a coordinator requests producer ids: that is in the
middle of a decision.

With `serve --zookeeper` there is no parent, and zookeeper_node.py runs one broker:

1. zookeeper/cluster_session.py has the broker's session with ZooKeeper, in a thread. zookeeper/election.py registers
   the broker there, and takes part in the election of the controller. What it sees goes to candidate.py on the event
   loop, which never waits for ZooKeeper.
2. The elected broker runs elected_controller.py in a thread of its own. It loads the image through
   zookeeper/cluster_store.py, listens with controller_endpoint.py, and registers that address. Every broker, this one
   too, connects there with controller_link.py.
3. A change is a transaction of ZooKeeper that checks `/controller_epoch`; a change of more than 900,000 bytes is
   several, each with that check (zookeeper/cluster_changes.py; zookeeper/cluster_znodes.py has paths and JSON). When
   it is unknown whether ZooKeeper has made one, this controller resigns: the next one loads what ZooKeeper has.
"""
