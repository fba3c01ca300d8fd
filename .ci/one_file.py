"""One file with the command `kafka-offsets`, for machines where nothing can be installed: make one-file.

It has the package, the extra `http` and what both need, as the Python that builds it has them, and runs with the same
version of Python on the same kind of machine. Compiled modules cannot be loaded from an archive: the first start
unpacks the file into a folder of the user's cache, by its digest, and further starts use that.
"""

import argparse
import re
import sys
import tempfile
import zipapp
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement

NAME, EXTRA = "kafka-offsets", "http"
MAIN = '''\
"""Unpacks this archive once, and runs the command."""

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

BUILT_BY = {version!r}


def unpacked(archive):
    """Return the folder with the contents of an archive."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-offsets"
    folder = cache / digest
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = Path(tempfile.mkdtemp(dir=cache))
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(made)
        try:
            made.rename(folder)
        except OSError:
            shutil.rmtree(made)
            if not folder.is_dir():  # another start was not the reason
                raise
    return str(folder)


if sys.version_info[:2] != BUILT_BY:
    sys.exit(f"this file is for Python {{BUILT_BY[0]}}.{{BUILT_BY[1]}}, and this is {{sys.version.split()[0]}}")
sys.path.insert(0, unpacked(Path(sys.argv[0]).resolve()))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sys.path[0], os.environ.get("PYTHONPATH"))))

from kafka_offsets.cli import main

sys.exit(main())
'''
"""What the file runs. Processes that the command starts find the same packages."""


def needed(name: str, extras: frozenset[str], found: dict[str, Distribution]) -> None:
    """Add the distributions that one needs, without itself."""
    for line in Distribution.from_name(name).requires or ():
        requirement = Requirement(line)
        environments = [{"extra": extra} for extra in extras or {""}]
        if requirement.marker is not None and not any(map(requirement.marker.evaluate, environments)):
            continue
        key = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if key not in found:
            found[key] = Distribution.from_name(requirement.name)
            needed(requirement.name, frozenset(requirement.extras), found)


def files_of(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the names in an archive and the files of a distribution, without its commands."""
    for file in distribution.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            yield file.as_posix(), Path(str(distribution.locate_file(file)))


def build(wheel: Path, target: Path) -> None:
    """Write the file, with a wheel of the package."""
    found: dict[str, Distribution] = {}
    needed(NAME, frozenset({"", EXTRA}), found)
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch) / "site"
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
        for distribution in found.values():
            for name, file in files_of(distribution):
                (site / name).parent.mkdir(parents=True, exist_ok=True)
                (site / name).write_bytes(file.read_bytes())
        (site / "__main__.py").write_text(MAIN.format(version=tuple(sys.version_info[:2])), encoding="utf-8")
        zipapp.create_archive(site, target, interpreter="/usr/bin/env python3", compressed=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, help="of the package")
    parser.add_argument("target", type=Path, help="such as kafka-offsets.pyz")
    given = parser.parse_args()
    build(given.wheel, given.target)
