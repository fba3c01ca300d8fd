"""Does any page of build/docs scroll sideways in a window of 1280 pixels, or a table in it? `make docs` asks this.

    python -m tests.documents.widths

It needs a chromium, which loads all pages as frames of one page. Exit code 1 names the pages; without a chromium it
does nothing.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SITE = Path(__file__).resolve().parents[2] / "build" / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--allow-file-access-from-files",
    "--disable-web-security",
    "--virtual-time-budget=1000000",
    "--dump-dom",
]
WIDTH = 1280
LIMIT_S = 300

MEASURE = """<!doctype html><pre id="found"></pre><script>
const pages = PAGES, found = {};
const heading = table => table.querySelector("tr").innerText.replaceAll(/\\s+/g, " ");
async function measure(page) {
  const frame = document.createElement("iframe");
  frame.style = "width: WIDTHpx; height: 900px; border: 0";
  frame.src = page;
  await new Promise(loaded => { frame.onload = loaded; document.body.append(frame); });
  const root = frame.contentDocument.documentElement;
  const tables = [...frame.contentDocument.querySelectorAll(".table-wrapper")];
  const wide = tables.filter(table => table.scrollWidth > table.clientWidth + 1);
  if (root.scrollWidth > WIDTH || wide.length) found[page] = [root.scrollWidth, wide.map(heading)];
  frame.remove();
}
(async () => {
  for (const page of pages) await measure(page);
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>"""


def too_wide(browser: str) -> dict[str, tuple[int, list[str]]]:
    """Return the width of each page that scrolls, and the beginnings of its tables that do."""
    pages = sorted(path.as_uri() for path in SITE.rglob("*.html") if "_static" not in path.parts)
    with tempfile.TemporaryDirectory() as folder:
        asking = Path(folder) / "measure.html"
        asking.write_text(
            MEASURE.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(WIDTH)), encoding="utf-8"
        )
        words = [*OPTIONS, f"--user-data-dir={folder}/profile", asking.as_uri()]
        done = subprocess.run(
            [browser, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
    answer = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert answer and answer[1], done.stderr
    found: dict[str, tuple[int, list[str]]] = json.loads(html.unescape(answer[1]))
    return found


def main() -> int:
    """Print the pages that are too wide; return the exit code."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    found = {} if browser is None else too_wide(browser)
    for page, (width, tables) in found.items():
        print(f"{page}: {width} px; tables that scroll: {tables}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
