"""A headless Chromium, over its pipe for debuggers: one page, its script, its keyboard.

Source: the Chrome DevTools Protocol; a message is JSON and a null byte, over descriptors 3 and 4.
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SECONDS = 1800.0
"""All tests of a module share a browser."""

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--mute-audio",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_TAKE_PIPES = """
import os, sys
from fcntl import F_DUPFD, fcntl
held = [fcntl(int(each), F_DUPFD, 10) for each in sys.argv[1:3]]
for number, each in enumerate(held, 3):
    os.dup2(each, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Makes the pipes the descriptors 3 and 4, and becomes the browser."""

_SCRIPT = Path(__file__).with_name("layout.js")

_KEYS = {"Tab": 9, "Enter": 13, " ": 32}


class Page:
    """One page of the browser."""

    def __init__(self, sending: int, receiving: int) -> None:
        self._sending, self._receiving = sending, receiving
        self._numbers = itertools.count(1)
        self._held = b""
        self._traced: list[dict[str, Any]] = []
        self._is_traced = False
        self._session: str | None = None
        self.problems: list[str] = []
        """What the page has logged as an error, and refusals of its policy."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **given: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": given}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._sending, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self) -> Any:
        while b"\0" not in self._held:
            data = os.read(self._receiving, 1 << 16)
            assert data, "the browser has ended"
            self._held += data
        frame, _, self._held = self._held.partition(b"\0")
        message = json.loads(frame)
        event, given = message.get("method"), message.get("params", {})
        if event == "Runtime.exceptionThrown":
            self.problems.append(str(given["exceptionDetails"]))
        elif event == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.problems.append(given["entry"]["text"])
        elif event == "Tracing.dataCollected":
            self._traced += given["value"]
        elif event == "Tracing.tracingComplete":
            self._is_traced = True
        return message

    def open(self, url: str) -> None:
        """Load a page; return when all of it is there."""
        self._call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        done = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Return when an expression in the page is true."""
        look = f"const look = () => ({condition}) ? is(true) : setTimeout(look, 20)"
        self.run(f"new Promise((is) => {{ {look}; look(); }})")

    def press(self, key: str) -> None:
        """Press and release a key."""
        named = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key]}
        text = {"Enter": "\r", " ": " "}.get(key)
        down = named | ({"text": text} if text else {})
        self._call("Input.dispatchKeyEvent", type="keyDown", **down)
        self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    def tasks_during(self, run: Callable[[], None]) -> list[tuple[float, float]]:
        """Return the tasks of the page's main thread while a function runs: (CPU time, elapsed time) of each, in ms.

        A frame waits for the task that is running. Its CPU time does not depend on what else the machine does.
        """
        self._traced, self._is_traced = [], False
        config = {
            "includedCategories": ["disabled-by-default-devtools.timeline"],
            "excludedCategories": ["*"],
        }
        self._call("Tracing.start", traceConfig=config, transferMode="ReportEvents")
        try:
            run()
        finally:
            self._call("Tracing.end")
        while not self._is_traced:
            self._receive()
        named = [each for each in self._traced if each["name"] == "thread_name"]
        threads = [(each["pid"], each["tid"]) for each in named if each["args"]["name"] == "CrRendererMain"]
        return [
            (each["tdur"] / 1000, each["dur"] / 1000)
            for each in self._traced
            if each["name"] == "RunTask" and "tdur" in each and (each["pid"], each["tid"]) in threads
        ]

    def resize(self, width: int, height: int = 900) -> None:
        """Give the window another size, in CSS pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def layout_problems(self, *, tables_fit: bool) -> list[str]:
        """Return what is outside the window, cut off, or overlaps; with `tables_fit` also tables that scroll."""
        wrong, scrolling = self.run(_of_layout("layoutProblems()"))
        return [*wrong, *(scrolling if tables_fit else [])]

    def contrast_problems(self, least: float = 4.5) -> list[str]:
        """Return colours of texts whose contrast with the colour below them is too low."""
        found: list[str] = self.run(_of_layout(f"contrastProblems({least})"))
        return found

    def settle(self) -> None:
        """Return when what has changed is on the screen: after two frames."""
        self.run("new Promise((is) => requestAnimationFrame(() => requestAnimationFrame(() => is(0))))")

    def add_style(self, style: str) -> None:
        """Add rules to the style of the page, also if its policy allows no others."""
        sheet = "document.adoptedStyleSheets.push(new CSSStyleSheet()), document.adoptedStyleSheets.at(-1)"
        self.run(f"({sheet}).replaceSync(`{style}`)")

    def before_scripts(self, script: str) -> None:
        """Run a script in each page that is opened, before its own ones."""
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def picture(self) -> bytes:
        """Return the window as a PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def prefer(self, scheme: str) -> None:
        """Prefer the colours `light` or `dark`."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def _of_layout(call: str) -> str:
    """Return an expression that calls a function of layout.js."""
    return f"(() => {{ {_SCRIPT.read_text(encoding='utf-8')} return {call}; }})()"


@contextmanager
def chromium(folder: Path, seconds: float = _SECONDS) -> Iterator[Page]:
    """Yield a page of a new browser, which is killed after some seconds; skip without one."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        import pytest  # late: `make docs` needs no pytest

        pytest.skip("chromium is not installed: apt-get install -y chromium")
    to_browser, sending = os.pipe()
    receiving, from_browser = os.pipe()
    words = [path, *_OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_PIPES, str(to_browser), str(from_browser), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(to_browser, from_browser),
        start_new_session=True,
    )
    os.close(to_browser)
    os.close(from_browser)
    ending = threading.Timer(seconds, process.kill)
    ending.start()
    try:
        yield Page(sending, receiving)
    finally:
        ending.cancel()
        os.close(sending)  # the browser ends with its debugger
        os.close(receiving)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
