"""Run other people's test suites against our broker and Apache Kafka, and write docs/suites.md.

    python -m tests.suites                                 # `make suites`; Java 17, Maven and Go
    python -m tests.suites --suite kafka-go --target ours  # one of them; the page keeps what the others came to last

Exit code: 0 when every test that passes with Kafka passes with ours, 1 when one does not, 2 when a suite or a broker
cannot be had. What is downloaded and what was found is kept in .suites.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.suites import page
from tests.suites.clones import Aiokafka, FastStream
from tests.suites.confluent_kafka_go import ConfluentKafkaGo
from tests.suites.kafka_go import KafkaGo
from tests.suites.kafka_python import KafkaPython
from tests.suites.outcomes import Run, load, run_with_repetitions, save
from tests.suites.suite import Suite, SuiteError
from tests.suites.targets import ROOT, TARGETS, TargetError

SUITES: Sequence[Suite] = (KafkaPython(), KafkaGo(), ConfluentKafkaGo(), Aiokafka(), FastStream())
PAGE = ROOT / "docs" / "suites.md"
KEPT = ROOT / ".suites"
SHORT = ("kafka", "ours", "tests")
"""What the command calls TARGETS."""


def play(suite: Suite, target: str) -> Run:
    """Run one suite with one new broker."""
    directory = KEPT / f"{suite.name}-{suite.version}"
    suite.prepare(directory)
    start = TARGETS[target]
    with tempfile.TemporaryDirectory() as data, start(Path(data), suite.port, suite.settings):
        return run_with_repetitions(
            suite.name, suite.version, target, lambda names: suite.execute(directory, names)
        )


def kept(suite: Suite, target: str) -> Path:
    """Return where the last run of a suite with a broker is kept."""
    return KEPT / "runs" / f"{suite.name}-{suite.version}-{target.replace(' ', '-')}.json"


def write(name: str, text: str) -> None:
    """Write the generated part of the page that has this name."""
    part = re.compile(f"(<!-- begin: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
    before = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(part.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", before), encoding="utf-8")


def report() -> int:
    """Write the page from the last runs, print the table and what is wrong; return the exit code."""
    last = {
        (suite.name, target): load(path)
        for suite in SUITES
        for target in TARGETS
        if (path := kept(suite, target)).exists()
    }
    runs = list(last.values())
    write("results", page.results(runs))
    write("failures", page.failures(runs))
    print(page.results(runs))
    kafka, ours, _ = TARGETS
    both = [suite.name for suite in SUITES if {(suite.name, kafka), (suite.name, ours)} <= last.keys()]
    wrong = page.complaints((last[name, kafka], last[name, ours]) for name in both)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], help="this one alone")
    parser.add_argument(
        "--target", choices=SHORT, help="with this broker alone; tests: ours as a test gets it"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, report of the last runs")
    given = parser.parse_args()
    targets = [
        target
        for short, target in zip(SHORT, TARGETS, strict=True)
        if (short == given.target if given.target else short != "tests") and not given.report
    ]
    for suite in SUITES:
        if given.suite not in (None, suite.name):
            continue
        for target in targets:
            print(f"--- {suite.name} with {target}", flush=True)
            try:
                save(play(suite, target), kept(suite, target))
            except (TargetError, SuiteError, subprocess.CalledProcessError, OSError) as error:
                print(f"{suite.name} with {target}: {error}", file=sys.stderr)
                return 2
    return report()


if __name__ == "__main__":
    sys.exit(main())
