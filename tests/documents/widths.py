"""Does every page of build/docs fit into windows of three widths, and can it be read in light and in dark?

    python -m tests.documents.widths [--pictures FOLDER]

`make docs` runs this. It holds the layout to rules: the page does not scroll sideways; no text is outside the window
or cut off; no block overlaps the next one; in a window of 1280 px no table scrolls; all text has contrast. Pictures are
not compared with kept ones: fonts and the version of the browser change nearly every pixel, and a comparison that
allows for that does not see a cut-off column. `--pictures` writes them, to be looked at.

It needs a chromium. Exit code 1 names the pages; without a chromium it does nothing.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tests.http.browser import Page, chromium

SITE = Path(__file__).resolve().parents[2] / "build" / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (375, 768, 1280)
SCHEMES = ("light", "dark")
LEAST_CONTRAST = 4.5
LIMIT_S = 600


def problems(browser: Page, page: Path, pictures: Path | None) -> Iterator[str]:
    """Yield what is wrong with a page."""
    browser.open(page.as_uri())
    for width in WIDTHS:
        browser.resize(width)
        for each in browser.layout_problems(tables_fit=width == max(WIDTHS)):
            yield f"{width} px: {each}"
        if pictures is not None:
            for scheme in SCHEMES:
                browser.prefer(scheme)
                (pictures / f"{page.stem}-{width}-{scheme}.png").write_bytes(browser.picture())
    for scheme in SCHEMES:
        browser.prefer(scheme)
        for each in browser.contrast_problems(LEAST_CONTRAST):
            yield f"{scheme}: {each}"


def not_compared() -> str | None:
    """Return why pages are not compared with the kept pictures here, None if they are."""
    if version("furo") != THEME:
        return f"pictures of the site are of furo {THEME}, and this is {version('furo')}"
    return pictures.missing()


def main() -> int:
    """Print what is wrong; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    pictures: Path | None = parser.parse_args().pictures
    if not any(map(shutil.which, BROWSERS)):
        return 0
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    if (why := not_compared()) is not None:
        print(f"not compared: {why}", file=sys.stderr)
    found = 0
    pages = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder), LIMIT_S) as browser:
        for page in pages:
            for each in problems(browser, page, pictures):
                print(f"{page.relative_to(SITE)}: {each}", file=sys.stderr)
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
