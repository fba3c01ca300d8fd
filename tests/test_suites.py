"""How the suites of other projects are judged, without running them: `make suites` does that."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import GeneratedPart
from tests.suites import clones, kafka_go, page, pytest_suite
from tests.suites.__main__ import SUITES
from tests.suites.outcomes import Outcome, Outcomes, Run, leaves, run_with_repetitions, worse
from tests.suites.suite import SuiteError, run_in_group

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def run(outcomes: Outcomes, target: str = "ours") -> Run:
    return Run("suite", "1", target, outcomes, [], 1.0, "2026-01-01")


def test_ours_is_worse_where_kafka_passes_and_ours_fails_skips_or_does_not_run() -> None:
    kafkas = run({"a": PASSED, "b": PASSED, "c": PASSED, "d": PASSED, "e": FAILED, "f": SKIPPED})
    ours = run({"a": PASSED, "b": FAILED, "c": SKIPPED, "e": FAILED, "f": FAILED})
    assert worse(ours, kafkas) == ["b", "c", "d"]
    assert len(page.complaints([(kafkas, ours)])) == 3


@pytest.mark.parametrize(
    ("failures", "outcome", "asked", "repeated"),
    [
        (0, PASSED, [None], []),
        (1, PASSED, [None, ["t"]], ["t"]),
        (2, PASSED, [None, ["t"], ["t"]], ["t"]),
        (3, FAILED, [None, ["t"], ["t"]], []),
    ],
)
def test_a_test_that_fails_is_run_again_twice_at_most(
    failures: int, outcome: Outcome, asked: list[object], repeated: list[str]
) -> None:
    calls: list[object] = []

    def execute(names: object) -> Outcomes:
        calls.append(names)
        return {"t": FAILED if len(calls) <= failures else PASSED}

    made = run_with_repetitions("suite", "1", "ours", execute)
    assert (made.outcomes, calls, made.repeated) == ({"t": outcome}, asked, repeated)


def test_a_parent_is_not_counted_unless_it_fails_of_itself() -> None:
    assert leaves({"a": PASSED, "a/b": PASSED, "a/b/c": PASSED}) == {"a/b/c": PASSED}
    assert leaves({"a": FAILED, "a/b": FAILED, "a/c": PASSED}) == {"a/b": FAILED, "a/c": PASSED}
    assert leaves({"a": FAILED, "a/b": PASSED}) == {"a": FAILED, "a/b": PASSED}


def test_a_go_test_that_does_not_end_has_failed() -> None:
    events = [
        ("run", "A"),
        ("run", "A/x"),
        ("skip", "A/x"),
        ("run", "A/y"),
        ("output", "A/y"),
        ("run", "B"),
        ("pass", "B"),
    ]
    output = "\n".join(json.dumps({"Action": action, "Test": test}) for action, test in events)
    expected = {"A/x": SKIPPED, "A/y": FAILED, "B": PASSED}
    assert kafka_go.read_outcomes(f"# compiled\n{output}\n{json.dumps({'Action': 'fail'})}") == expected


def test_a_panic_that_ends_a_go_test_is_found() -> None:
    panic = {"Action": "output", "Test": "TestA", "Output": "panic: test timed out after 24m0s\n"}
    said = {"Action": "output", "Test": "TestA", "Output": "a panic: it is none\n"}
    assert (
        kafka_go.find_panic(f"# compiled\n{json.dumps(said)}\n{json.dumps(panic)}") == panic["Output"].strip()
    )
    assert not kafka_go.find_panic(json.dumps(said))


def test_go_finds_a_test_by_all_parts_of_its_name() -> None:
    assert kafka_go.pattern(["A/b_c", "D"]) == "^A$/^b_c$|^D$"


def test_a_pytest_that_does_not_end_or_cannot_be_torn_down_has_failed() -> None:
    phases = [
        ("a", "begin", "failed"),
        ("a", "setup", "passed"),
        ("a", "call", "passed"),
        ("a", "teardown", "failed"),
        ("b", "begin", "failed"),
        ("b", "setup", "skipped"),
        ("b", "teardown", "passed"),
        ("c", "begin", "failed"),
        ("c", "setup", "passed"),
        ("c", "call", "passed"),
        ("c", "teardown", "passed"),
        ("d", "begin", "failed"),
        ("d", "setup", "passed"),
        ("e", "begin", "failed"),
        ("e", "call", "rerun"),
        ("e", "call", "passed"),
        ("f", "begin", "failed"),
        ("f", "call", "rerun"),
        ("f", "call", "failed"),
    ]
    lines = "\n".join(json.dumps(phase) for phase in phases)
    expected = {"a": FAILED, "b": SKIPPED, "c": PASSED, "d": FAILED, "e": PASSED, "f": FAILED}
    assert pytest_suite.read_outcomes(lines) == expected


def test_what_is_adapted_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "settings.py"
    file.write_text('url = "localhost:9092"\n')
    clones.edit(file, "localhost:9092", "localhost:21153")
    assert file.read_text() == 'url = "localhost:21153"\n'
    with pytest.raises(SuiteError, match=r"settings\.py has no localhost:9092"):
        clones.edit(file, "localhost:9092", "localhost:21153")


def test_the_page_names_the_suites_that_are_run_and_what_is_excluded(generated: GeneratedPart) -> None:
    generated.check("docs/suites.md", "suites", page.sources(SUITES))
    generated.check("docs/suites.md", "left out", page.left_out(SUITES))


def test_every_reason_is_a_sentence_and_every_run_has_a_bound() -> None:
    for suite in SUITES:
        assert suite.limit_s > 0
        assert all(len(why.split()) > 5 for why in suite.not_run.values())


def test_a_run_that_does_not_end_in_its_time_is_an_error_and_not_fewer_tests(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    run_in_group([sys.executable, "-c", "print('done')"], tmp_path, {}, output, 60)
    assert output.read_text() == "done\n"
    with pytest.raises(SuiteError, match=r"not done after 0.1 s; see .*output\.txt"):
        run_in_group(["sleep", "60"], tmp_path, {}, output, 0.1)
