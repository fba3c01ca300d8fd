"""Installation: the command that adds an extra to this installation, wherever it came from.

pip notes the origin in `direct_url.json` (PEP 610): a folder, an archive or a repository. Without this file the package
came from an index, and without a distribution it is imported from a source tree.
"""

import json
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "kafka-offsets"


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra, with quotes for every shell."""
    try:
        origin_text = Distribution.from_name(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return f'pip install "{Path(__file__).resolve().parents[1]}[{extra}]"'
    if origin_text is not None:
        try:
            return _command(json.loads(origin_text), extra)
        except (ValueError, LookupError, TypeError, AttributeError):
            pass  # it says nothing that PEP 610 allows: what needs the extra says so all the same
    return f'pip install "{NAME}[{extra}]"'


def _command(origin: dict[str, Any], extra: str) -> str:
    if "dir_info" in origin:
        option = "--editable " if origin["dir_info"].get("editable") else ""
        return f'pip install {option}"{url2pathname(urlsplit(origin["url"]).path)}[{extra}]"'
    return f'pip install "{NAME}[{extra}] @ {_reference(origin)}"'


def _reference(origin: dict[str, Any]) -> str:
    """Return the reference of a repository or an archive, as in a list of requirements (PEP 508)."""
    reference: str = origin["url"]
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        reference = reference.replace("file:///", "file://localhost/", 1)  # pip 23 wants a host after git+
        reference = f"{vcs['vcs']}+{reference}@{vcs.get('requested_revision') or vcs['commit_id']}"
    return reference + (f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else "")
