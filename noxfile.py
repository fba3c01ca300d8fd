"""Tests with other versions of Python and of the dependencies: `pip install nox`, then `nox -s tests-3.13`.

`make test` runs everything with one Python. These sessions run what needs no JVM, no other client's server and no long
search; words after `--` replace the folders: `nox -s oldest -- tests/storage`.
"""

import configparser
import re

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
TESTED = [
    "tests/protocol",
    "tests/storage",
    "tests/coordinator",
    "tests/broker",
    "tests/client",
    "tests/testing",
]
QUICK = ["-q", "-n", "logical", "-m", "not (slow or interop or java or spark or apache_kafka)"]
EXTRAS = ("cli", "fast", "http", "prometheus", "zookeeper")
"""What users install. What only tests import stays at its newest version."""

nox.options.default_venv_backend = "venv"
nox.options.sessions = [f"tests-{version}" for version in PYTHONS]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The quick tests, with the newest dependencies."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", *QUICK, *(session.posargs or TESTED))


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The quick tests, with the oldest dependencies that setup.cfg allows."""
    session.install(".[test]")
    session.install(*oldest_versions())
    session.run("python", "-m", "pytest", *QUICK, *(session.posargs or TESTED))


@nox.session(python=PYTHONS[0])
def build(session: nox.Session) -> None:
    """The source distribution and the wheel in dist/."""
    session.install("build", "twine")
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *sorted(map(str, session.path.glob("dist/*"))))


def oldest_versions() -> list[str]:
    """Return each requirement of the package and of its extras at its lowest version, as words for pip."""
    setup = configparser.ConfigParser()
    setup.read("setup.cfg", encoding="utf-8")
    named = [
        setup["options"]["install_requires"],
        *(setup["options.extras_require"][extra] for extra in EXTRAS),
    ]
    return [
        f"{name}=={version}"
        for name, version in re.findall(r"^([\w-]+) >= ([\w.]+)", "\n".join(named), re.MULTILINE)
    ]
