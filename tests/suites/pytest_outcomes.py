"""A plugin for the pytest of a suite: a line of JSON for each phase of each test, also when the run does not end.

It is imported by another project's tests, and knows nothing of ours.
"""

import json
import os


def pytest_runtest_logstart(nodeid, location):
    _write(nodeid, "begin", "failed")


def pytest_runtest_logreport(report):
    _write(report.nodeid, report.when, report.outcome)


def _write(test, phase, outcome):
    with open(os.environ["PYTEST_OUTCOMES"], "a", encoding="utf-8") as lines:
        lines.write(json.dumps([test, phase, outcome]) + "\n")
