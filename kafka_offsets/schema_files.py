"""Schema files: the only module that finds and reads them.

An installed package contains them next to its modules, also in a zip file, as Spark gives it to executors; a checkout
has them one folder up, at the top of the project. A file is read on first use.
"""

from __future__ import annotations

from functools import cache
from os import listdir
from os.path import dirname, isfile, join
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_PACKAGE = dirname(__file__)
_ONE_OF_ALL = "headers.schema"


@cache
def _folder() -> str | None:
    """Return the folder with the ``*.schema`` files, None if the package is not in a file system."""
    for candidate in (join(_PACKAGE, "schemas"), join(dirname(_PACKAGE), "schemas")):
        if isfile(join(candidate, _ONE_OF_ALL)):
            return candidate
    return None


@cache
def _resources() -> Traversable:
    """Return the schema files of a package in a zip file; FileNotFoundError if there are none."""
    from importlib.resources import files  # not above: importing it takes longer than reading a file

    folder = files(__package__).joinpath("schemas")
    if not folder.joinpath(_ONE_OF_ALL).is_file():
        raise FileNotFoundError(f"no schema files in {folder} or next to {_PACKAGE}")
    return folder


@cache
def names() -> tuple[str, ...]:
    """Return the names of all schema files without their ending, sorted."""
    folder = _folder()
    files = [resource.name for resource in _resources().iterdir()] if folder is None else listdir(folder)
    return tuple(sorted(file[: -len(".schema")] for file in files if file.endswith(".schema")))


def read_all() -> None:
    """Read every schema file, in 2 ms, so that the first use of an API needs no descriptor."""
    for name in names():
        read(name)


@cache
def read(name: str) -> str:
    """Return the text of one schema file, named without its ending."""
    folder = _folder()
    if folder is None:
        return _resources().joinpath(f"{name}.schema").read_text(encoding="utf-8")
    with open(join(folder, f"{name}.schema"), encoding="utf-8") as file:
        return file.read()
