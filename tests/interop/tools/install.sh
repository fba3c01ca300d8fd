#!/usr/bin/env bash
# What tests/interop/test_other_tools.py starts, into FOLDER: install.sh FOLDER [PYTHON]
# Each is installed once. The script names one that cannot be had and continues; the test of that tool is skipped.
set -uo pipefail
folder=$1 python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder/bin" && folder=$(cd "$folder" && pwd)

attempt() { # NAME COMMAND…
  local log="$folder/$1.log" name=$1
  shift
  [ ! -e "$folder/.$name" ] || return 0
  if "$@" > "$log" 2>&1; then touch "$folder/.$name"; else echo "$name cannot be had: see $log" >&2; fi
}
environment() { # FOLDER PACKAGE…: an environment for each, as they need different versions of the same clients
  "$python" -m venv --clear "$folder/$1" && "$folder/$1/bin/python" -m pip install --disable-pip-version-check "${@:2}"
}
program() { # MODULE@VERSION
  command -v go && GOFLAGS=-mod=mod GOBIN="$folder/bin" go install "$1"
}
redpanda_console() { # TAG: its releases are no Go modules. Its pages, which npm builds, are an empty one: tests call its API
  local source="$folder/redpanda-console-source"
  command -v go && rm -rf "$source" &&
    git clone --quiet --depth 1 --branch "$1" https://github.com/redpanda-data/console "$source" &&
    echo "<!doctype html>" > "$source/backend/pkg/embed/frontend/index.html" &&
    (cd "$source/backend" && GOFLAGS=-mod=mod go build -o "$folder/bin/redpanda-console" ./cmd/api)
}

attempt connect bash "$here/../../../benchmarks/peers/jars.sh" "$here/connect/pom.xml" "$folder/connect-jars"
attempt faust environment faust faust-streaming==0.15.3 pytest "$here/../../.."
attempt quix environment quix quixstreams==3.28.1 pytest "$here/../../.."
attempt bytewax environment bytewax 'bytewax[kafka]==0.21.1'
attempt kafka_exporter program github.com/danielqsj/kafka_exporter@v1.9.0
attempt kminion program github.com/cloudhut/kminion/v2@v2.1.0
attempt redpanda-console redpanda_console v2.3.3
