#!/usr/bin/env bash
# Three real Apache Kafka nodes, broker and controller each, on the loopback: the reference for replication and failover.
#   kafka-cluster.sh start PORT DIR [EXTRA.properties]   # brokers on PORT … PORT+2, controllers on PORT+10 … PORT+12
#   kafka-cluster.sh kill|pause|continue|restart DIR NODE
#   kafka-cluster.sh stop DIR
# KAFKA_CLUSTER_HOSTS="A B C" and KAFKA_CLUSTER_NAMESPACES="X Y Z" give each node an address and a network namespace.
# min.insync.replicas is 2. Needs what kafka.sh needs, and has the same jars.
set -euo pipefail
version=${KAFKA_PEER_VERSION:-4.3.1}
home=${KAFKA_PEER_HOME:-$HOME/.cache/kafka-peer-$version}
peers=$(cd "$(dirname "$0")" && pwd)
options=(-XX:+UseSerialGC -cp "$home/libs/*" "-Dlog4j2.configurationFile=$peers/kafka/log4j2.yaml")
hosts=(- ${KAFKA_CLUSTER_HOSTS:-127.0.0.1 127.0.0.1 127.0.0.1})
namespaces=(- ${KAFKA_CLUSTER_NAMESPACES:-})

launch() { # DIR NODE
  local inside=()
  [ -z "${namespaces[$2]:-}" ] || inside=(ip netns exec "${namespaces[$2]}")
  "${inside[@]}" java -Xms128M -Xmx512M "${options[@]}" kafka.Kafka "$1/$2/server.properties" >> "$1/$2/kafka.log" 2>&1 < /dev/null &
  echo $! > "$1/$2/pid"
}
answers() { python3 - "$1" "$2" <<'PY'
import socket, struct, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 1) as s:
    s.settimeout(2)
    s.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))  # ApiVersions v0
    sys.exit(0 if len(s.recv(4)) == 4 else 1)
PY
}
# A zombie has ended once it has one thread left, though nothing has reaped it: pid 1 of many containers does not.
lives() { kill -0 "$1" 2>/dev/null && ! grep -Eqs '\) Z( -?[0-9]+){16} 1 ' "/proc/$1/stat"; }
await() { # DIR NODE
  local port=$(($(cat "$1/port") + $2 - 1))
  while :; do # as long as it lives: how long a JVM takes to start is the machine's matter
    lives "$(cat "$1/$2/pid")" || { echo "node $2 ended; see $1/$2/kafka.log" >&2; exit 1; }
    answers "${hosts[$2]}" "$port" 2>/dev/null && return
    sleep 0.1
  done
}

case ${1:-} in
start)
  port=$2 dir=$3 extra=${4:-}
  bash "$peers/jars.sh" "$peers/kafka/pom.xml" "$home/libs" "-Dpeer.version=$version"
  mkdir -p "$dir"; echo "$port" > "$dir/port"
  id=$(python3 -c 'import base64, os; print(base64.b64encode(os.urandom(16), b"AB").decode()[:22])')
  for n in 1 2 3; do
    mkdir -p "$dir/$n"
    cat > "$dir/$n/server.properties" <<P
process.roles=broker,controller
node.id=$n
controller.quorum.voters=1@${hosts[1]}:$((port + 10)),2@${hosts[2]}:$((port + 11)),3@${hosts[3]}:$((port + 12))
listeners=PLAINTEXT://${hosts[n]}:$((port + n - 1)),CONTROLLER://${hosts[n]}:$((port + n + 9))
advertised.listeners=PLAINTEXT://${hosts[n]}:$((port + n - 1))
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/$n/logs
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
group.initial.rebalance.delay.ms=0
P
    [ -n "$extra" ] && cat "$extra" >> "$dir/$n/server.properties"
    java "${options[@]}" kafka.tools.StorageTool format -t "$id" -c "$dir/$n/server.properties" > "$dir/$n/format.log" 2>&1
    launch "$dir" "$n"
  done
  for n in 1 2 3; do await "$dir" "$n"; done ;;
kill) kill -9 "$(cat "$2/$3/pid")" ;;
pause) kill -STOP "$(cat "$2/$3/pid")" ;;
continue) kill -CONT "$(cat "$2/$3/pid")" ;;
restart) launch "$2" "$3"; await "$2" "$3" ;;
stop)
  for n in 1 2 3; do kill -9 "$(cat "$2/$n/pid")" 2>/dev/null || true; done ;;
*) sed -n '2,6p' "$0" >&2; exit 2 ;;
esac
