"""How long the page of `serve --http` keeps the browser busy, with many groups.

    python benchmarks/http_page.py [--groups 1000] [--partitions 20] [--updates 20]

A headless Chromium opens the page of a broker whose groups have committed offsets of all partitions. Each update
appends a record, which changes the lag of every group. A *task* is what the main thread of the page does without a
pause: script, style, layout or painting; a frame waits for it. The CPU time of a task does not depend on what else the
machine does, its elapsed time does. Goal: no task of more than 50 ms.

Chromium 156, two cores of an AMD EPYC, quiet (load 1), 2026-11-23, ms of CPU; the last two columns are of elapsed time,
in which other processes run as well:

             longest task       all tasks   longest elapsed  over 50 ms
        open         17.0           161.4              22.8           0
   an update         11.8            31.3              14.3           0
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from kafka_offsets.client.commits import VERSION, request
from kafka_offsets.client.connection import Connection
from tests.http.browser import Page, chromium
from tests.http.conftest import OneBroker, Serving


def commit(broker: OneBroker, groups: int, partitions: int) -> None:
    """Commit offset 0 of all partitions in each group."""
    host, port = broker.bootstrap_servers.split(":")
    with Connection(host, int(port)) as connection:
        for number in range(groups):
            offsets = {("orders", index): 0 for index in range(partitions)}
            connection.call(request(f"group-{number}", offsets, {}), VERSION)


def report(page: Page, name: str, run: Callable[[], None], rounds: int = 1) -> None:
    """Print the tasks of the page while a function runs."""
    tasks = page.tasks_during(run)
    cpu, elapsed = max(cpu for cpu, _ in tasks), max(elapsed for _, elapsed in tasks)
    in_all = sum(cpu for cpu, _ in tasks) / rounds
    late = sum(elapsed > 50 for _, elapsed in tasks)
    print(f"{name:>12} {cpu:13.1f} {in_all:15.1f} {elapsed:17.1f} {late:11}")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--updates", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Serving() as client, chromium(Path(folder), 600) as page:
        broker = OneBroker(client, "main", client.get("/brokers/main").value["bootstrap_servers"])
        broker.post("create_topic", name="orders", partitions=options.partitions)
        commit(broker, options.groups, options.partitions)

        def opened() -> None:
            page.open(f"{client.url}/")
            page.wait_for(f"document.querySelectorAll('details[data-group]').length === {options.groups}")

        def updated() -> None:
            for number in range(1, options.updates + 1):
                broker.post("produce", topic="orders", records=["a"], partition=number % options.partitions)
                page.wait_for(f"document.querySelector('#lag').textContent === '{number * options.groups}'")

        print(f"{'':>12} {'longest task':>13} {'all tasks':>15} {'longest elapsed':>17} {'over 50 ms':>11}")
        report(page, "open", opened)
        report(page, "an update", updated, options.updates)


if __name__ == "__main__":
    main()
