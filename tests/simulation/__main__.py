"""`python -m tests.simulation SEED` runs a seed, or some of its steps by number; `--count` runs seeds from it on."""

import argparse
import sys
import time

from tests.simulation.simulation import plan_of, report, run, steps_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument(
        "--steps", help="numbers of the steps to carry out, 3,17,20; `none` for the start alone"
    )
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--no-shrink", action="store_true", help="report all steps of a failure")
    parser.add_argument("--keep-going", action="store_true", help="count failures, one line each")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    options = parser.parse_args()
    begin, total, failures = time.process_time(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        steps = steps_of(seed)
        if options.steps:
            wanted = [] if options.steps == "none" else [int(number) for number in options.steps.split(",")]
            steps = [steps[number] for number in wanted]
        failure = run(plan_of(seed), steps, print if options.trace else None)
        total += len(steps)
        if failure is None:
            continue
        failures += 1
        if options.keep_going:
            text = failure.text.strip().splitlines()
            first = next((line for line in text if "DisagreementError:" in line), text[-1])
            print(f"seed {seed} at step {failure.at}: {first[:150]}", flush=True)
            continue
        print(report(plan_of(seed), steps, shrunk=not options.no_shrink and not options.steps))
        return 1
    took = time.process_time() - begin
    print(f"{options.count} seeds, {total} steps, {total / took:.0f} steps/s, {failures} failures")
    return 1 if failures else 0


sys.exit(main())
