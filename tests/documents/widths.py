"""Does every page of build/docs fit into windows of three widths, and can it be read in light and in dark?

    python -m tests.documents.widths [--rewrite-pictures]

`make docs` runs this. It holds the layout to rules: the page does not scroll sideways; no text is outside the window
or cut off; no block overlaps the next one; in a window of 1280 px no table scrolls; all text has contrast. The pages
in PICTURED are also compared with the kept pictures, where the font and the theme are those of the pictures.

It needs a chromium. Exit code 1 names the pages; without a chromium it does nothing.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tests.http import pictures
from tests.http.browser import Page, chromium
from tests.http.pictures import SCHEMES, WIDTHS

SITE = Path(__file__).resolve().parents[2] / "build" / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURED = ("index", "faults")
THEME = "2025.12.19"
"""The version of furo in the kept pictures; another one may look different."""
LEAST_CONTRAST = 4.5
LIMIT_S = 600


def problems(browser: Page, page: Path, *, rewrite: bool) -> Iterator[str]:
    """Yield what is wrong with a page."""
    browser.open(page.as_uri())
    for width in WIDTHS:
        browser.resize(width)
        for each in browser.layout_problems(tables_fit=width == max(WIDTHS)):
            yield f"{width} px: {each}"
    for scheme in SCHEMES:
        browser.prefer(scheme)
        for each in browser.contrast_problems(LEAST_CONTRAST):
            yield f"{scheme}: {each}"
    if page.stem in PICTURED and not_compared() is None:
        yield from pictures.differences(
            browser, f"site-{page.stem}", rewrite=rewrite, folder=SITE.parent / "pictures"
        )


def not_compared() -> str | None:
    """Return why pages are not compared with the kept pictures here, None if they are."""
    if version("furo") != THEME:
        return f"pictures of the site are of furo {THEME}, and this is {version('furo')}"
    return pictures.missing()


def main() -> int:
    """Print what is wrong; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewrite-pictures", action="store_true", help="take the kept pictures again")
    rewrite: bool = parser.parse_args().rewrite_pictures
    if not any(map(shutil.which, BROWSERS)):
        return 0
    if (why := not_compared()) is not None:
        print(f"not compared: {why}", file=sys.stderr)
    found = 0
    pages = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder), LIMIT_S) as browser:
        for page in pages:
            for each in problems(browser, page, rewrite=rewrite):
                print(f"{page.relative_to(SITE)}: {each}", file=sys.stderr)
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
