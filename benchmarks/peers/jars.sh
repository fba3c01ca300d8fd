#!/usr/bin/env bash
# The jars that a pom.xml names, from Maven Central: jars.sh POM FOLDER [MAVEN OPTION…]
# Prints nothing unless Maven fails: with -q and -B too it writes colour codes to stderr, where callers look for a
# tool's complaints. The folder gets all jars or none; of several that start at once one loads and the others wait.
set -euo pipefail
pom=$1 folder=$2
shift 2
[ ! -e "$folder/.complete" ] || exit 0
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)  # Maven takes a relative one from the folder of the POM
exec 9> "$folder/.lock"
python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'  # until this process ends; macOS has no flock(1)
[ ! -e "$folder/.complete" ] || exit 0  # another has loaded them in the meantime
rm -rf "$folder/.loading"
if ! mvn -q -B -f "$pom" "$@" dependency:copy-dependencies -DoutputDirectory="$folder/.loading" > "$folder/.log" 2>&1; then
  cat "$folder/.log" >&2
  exit 1
fi
mv "$folder/.loading"/*.jar "$folder"
rmdir "$folder/.loading"
touch "$folder/.complete"
