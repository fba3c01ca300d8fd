#!/usr/bin/env bash
# Tests with another version of PySpark, in an environment of its own: version.sh 3.5 FOLDER TESTS…; without tests it is
# only installed.
# With the oldest Python, or that in PYTHON.
set -euo pipefail
version=$1 folder=$2-spark-$1
shift 2
if [ ! -e "$folder/.complete" ]; then
  python=$(sh .ci/pythons | head -n 1)
  "$python" -m venv --clear "$folder"
  "$folder/bin/pip" install -q "pyspark[connect]==$version.*" 'pandas>=2.2,<3' numpy pyarrow fsspec cryptography hypothesis \
    'kafka-python[lz4,snappy,zstd]>=3.0.12' pytest pytest-timeout setuptools
  "$folder/bin/pip" install -q -e .
  touch "$folder/.complete"
fi
[ $# -gt 0 ] || exit 0
properties=$("$folder/bin/python" -c '
import pyspark
from kafka_offsets.spark import connector
found = connector.CONNECTORS[connector.row(pyspark.__version__)]
print(*(f"-D{name}={value}" for name, value in found._asdict().items()))')
# shellcheck disable=SC2086
bash benchmarks/peers/jars.sh "$PWD/tests/spark/pom.xml" "$folder/jars" $properties
echo "PySpark $("$folder/bin/python" -c 'import pyspark; print(pyspark.__version__)')"
# The py4j of these leaves sockets of callbacks to the garbage collector.
export KAFKA_OFFSETS_SPARK_JARS=$folder/jars
run() {
  "$folder/bin/python" -m pytest -q -m "not apache_kafka" \
    -W ignore:unclosed:ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning "$@"
}
failed=0
run "$@" || failed=1
if [ "$version" = 4.0 ]; then run examples/test_kafka_to_delta.py || failed=1; fi  # Delta 4.0 is made for it
exit $failed
