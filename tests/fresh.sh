#!/usr/bin/env bash
# make fresh: does `make test` pass, and `make run` serve, where nobody has run them before?
# On a clone of HEAD in a temporary folder, with HOME, Maven's repository, pip's cache and the jars of Kafka in empty
# folders beside it. The tools must be there (CI=true), also with PYTEST_ARGS="tests/…" for a part of the tests.
set -euo pipefail
set -m # what is started in the background is a process group, so that it can be stopped with its children
root=$(cd "$(dirname "$0")/.." && pwd)
fresh=$(mktemp -d)
broker=
stop() {
  [ -n "$broker" ] || return 0
  kill -TERM -- "-$broker" 2>/dev/null || true
  wait "$broker" 2>/dev/null || true # make ends with an error, since its command was ended
  broker=
}
trap 'stop; rm -rf "$fresh"' EXIT
trap 'exit 130' INT TERM
[ -z "$(git -C "$root" status --porcelain)" ] || echo "make fresh: HEAD is tested, without the uncommitted changes" >&2
git clone --quiet "$root" "$fresh/clone"
cd "$fresh/clone"

mkdir "$fresh/home"
export HOME=$fresh/home PIP_CACHE_DIR=$fresh/pip KAFKA_PEER_HOME=$fresh/kafka CI=true
export MAVEN_OPTS="${MAVEN_OPTS:-} -Dmaven.repo.local=$fresh/maven" # Maven does not look at HOME
unset PYTHONPATH VIRTUAL_ENV XDG_CACHE_HOME KAFKA_OFFSETS_JARS KAFKA_OFFSETS_SPARK_JARS

failed=
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
answers() { .venv/bin/kafka-offsets groups list --bootstrap-server "127.0.0.1:$port"; }

echo "--- make run"
make run PORT="$port" > "$fresh/run.log" 2>&1 &
broker=$!
until answers > "$fresh/answer.log" 2>&1; do
  if ! kill -0 "$broker" 2>/dev/null || [ "$SECONDS" -gt 600 ]; then
    cat "$fresh/run.log" "$fresh/answer.log" >&2
    failed="$failed run"
    break
  fi
  sleep 0.5
done
stop

make test || failed="$failed test"

if [ -n "$failed" ]; then echo "make fresh: failed:$failed" >&2; exit 1; fi
echo "make fresh: all is well"
