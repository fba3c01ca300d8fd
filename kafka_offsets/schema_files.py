"""Schema files: the only module that finds and reads them.

An installed package contains them next to its modules; a checkout has them one folder up, at the top of the
project. A file is read on first use.
"""

from functools import cache
from os import listdir
from os.path import dirname, isfile, join

_PACKAGE = dirname(__file__)


@cache
def folder() -> str:
    """Return the folder with the ``*.schema`` files; FileNotFoundError if there is none."""
    candidates = join(_PACKAGE, "schemas"), join(dirname(_PACKAGE), "schemas")
    for candidate in candidates:
        if isfile(join(candidate, "headers.schema")):
            return candidate
    raise FileNotFoundError(f"no schema files in {' or '.join(candidates)}")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all schema files without their ending, sorted."""
    return tuple(sorted(file[: -len(".schema")] for file in listdir(folder()) if file.endswith(".schema")))


def read_all() -> None:
    """Read every schema file, in 2 ms, so that the first use of an API needs no descriptor."""
    for name in names():
        read(name)


@cache
def read(name: str) -> str:
    """Return the text of one schema file, named without its ending."""
    with open(join(folder(), f"{name}.schema"), encoding="utf-8") as file:
        return file.read()
