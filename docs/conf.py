"""How `make docs` builds the pages: Sphinx, the pages in Markdown, the API from the docstrings."""

import sys
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

_setup = ConfigParser()
_setup.read(HERE.parent / "setup.cfg", encoding="utf-8")

project = "kafka_offsets"
author = "the authors of kafka_offsets"
copyright = "the authors of kafka_offsets, Apache License 2.0"  # noqa: A001 - Sphinx calls it so
release = version = _setup["metadata"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
extensions += ["plain_docstrings", "outside_pages", "language_tabs"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = f"kafka_offsets {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tables.css", "tabs.css"]
html_show_sphinx = False
copybutton_prompt_text = "$ "  # a command without its output

# Links to headings, as GitHub makes them; one that leads nowhere is a warning, and `make docs` fails at warnings.
myst_heading_anchors = 4
nitpicky = True

# Annotations name types of the insides, which have no page: they are shown, and lead nowhere.
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
# Where PySpark and its py4j are not there, the pages do without: 300 MB, of which they need base classes.
autodoc_mock_imports = [name for name in ("pyspark", "py4j") if find_spec(name) is None]
nitpick_ignore_regex = [("py:.*", r".*")]
suppress_warnings = ["ref.python"]  # annotations that fit the `Cluster` of the client and the one for tests

# Only `make linkcheck` asks other people's servers.
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False
linkcheck_ignore = [r"http://127\.0\.0\.1.*", r"http://localhost.*"]
