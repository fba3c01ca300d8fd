"""Where the schema files are: the one place that reads them.

An installed package carries them beside its modules; a checkout has them one folder up, at the top of the
project. Nothing is read before it is asked for.
"""

from functools import cache
from os import listdir
from pathlib import Path

_PACKAGE = Path(__file__).parent


@cache
def folder() -> Path:
    """Return the folder that holds the ``*.schema`` files; FileNotFoundError when there is none."""
    for candidate in (_PACKAGE / "schemas", _PACKAGE.parent / "schemas"):
        if (candidate / "headers.schema").is_file():
            return candidate
    raise FileNotFoundError(f"no schema files beside {_PACKAGE} or in {_PACKAGE.parent / 'schemas'}")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all schema files without their ending, sorted."""
    return tuple(sorted(file[: -len(".schema")] for file in listdir(folder()) if file.endswith(".schema")))


def read(name: str) -> str:
    """Return the text of one schema file, named without its ending."""
    return (folder() / f"{name}.schema").read_text(encoding="utf-8")
