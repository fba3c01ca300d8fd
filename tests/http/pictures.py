"""Kept pictures of pages, and where a page differs from them. `--rewrite-pictures` takes them again.

A picture is the window with a font that Debian's fonts-dejavu-core has, without animations, a quarter as wide and as
high. Another machine smooths letters and rounds positions differently, which changes a point of it by a little; a block
that is missing or has moved changes many points by much.
"""

import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageChops, ImageFilter

from tests.http.browser import Page

KEPT = Path(__file__).parents[1] / "pictures"
WIDTHS = (375, 768, 1280)
SCHEMES = ("light", "dark")
FONT = "DejaVu Sans"

FACTOR = 4
COLOURS = 32
MUCH = 40
"""A point has changed if a colour has, by more than this of 255."""
MOST_CHANGED = 0.003
"""This share of the points may change."""

_STYLE = """* { font-family: "DejaVu Sans" !important; animation: none !important; transition: none !important;
  caret-color: transparent !important; scrollbar-width: none !important; }
code, pre, kbd, samp, code *, pre * { font-family: "DejaVu Sans Mono" !important; }"""


def missing() -> str | None:
    """Return why pictures cannot be compared here, None if they can."""
    if shutil.which("fc-list") is None or not _run("fc-list", FONT):
        return (
            "pictures are compared with the font DejaVu Sans: apt-get install -y fonts-dejavu-core fontconfig"
        )
    return None


def _run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def differences(page: Page, name: str, *, rewrite: bool, folder: Path) -> list[str]:
    """Compare the page that is open with the kept pictures of this name; return a line for each that has changed.

    rewrite  keep the pictures that have changed instead
    folder   gets the whole window of each picture that has changed, to be looked at
    """
    found = []
    for each, window in take(page):
        path = KEPT / name / f"{each}.png"
        share = changed(Image.open(path), window) if path.exists() else 1.0
        if share <= MOST_CHANGED:
            continue
        if rewrite:
            keep(window, path)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        window.save(folder / f"{name}-{each}.png")
        where = f"{folder}/{name}-{each}.png"
        found.append(f"{share:.1%} of {path} have changed: look at {where}, then --rewrite-pictures")
    return found


def take(page: Page) -> Iterator[tuple[str, Image.Image]]:
    """Yield the pictures of a page in each width and scheme, with their names."""
    page.add_style(_STYLE)
    for width in WIDTHS:
        page.resize(width)
        for scheme in SCHEMES:
            page.prefer(scheme)
            page.settle()
            yield f"{width}-{scheme}", Image.open(io.BytesIO(page.picture())).convert("RGB")


def changed(kept: Image.Image, found: Image.Image) -> float:
    """Return the share of the points that have changed. `found` is the window, `kept` a small picture."""
    small = found.reduce(FACTOR)
    if small.size != kept.size:
        return 1.0
    smooth = ImageFilter.BoxBlur(1)
    difference = ImageChops.difference(kept.convert("RGB").filter(smooth), small.filter(smooth))
    red, green, blue = difference.split()
    largest = ImageChops.lighter(red, ImageChops.lighter(green, blue))
    return sum(largest.histogram()[MUCH:]) / (small.width * small.height)


def keep(picture: Image.Image, path: Path) -> None:
    """Write the small picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.reduce(FACTOR).quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
