"""The recorder of stories: plays their text with a real Kafka and writes its answers, or counts where another agrees.

    python -m tests.stories.record [AREA] [--port 19492] [--only TEXT]   # `make differential`; Java 17 and Maven
    python -m tests.stories.record --compare HOST:PORT                   # any broker, say kfake

Recording starts a new Kafka by benchmarks/peers/kafka.sh for each setting, on the port and the next one. An AREA is a
file of tests/stories without its ending, for example `commits`; of `admin_default` and `admin_refusing` both are
recorded. `consumer_capture` records frames and records for test_captures.py, `assignors` the answers of Kafka's
assignors for test_assignors.py, `topic_patterns` those about regular expressions for test_topics_of_groups.py; these
three are not text. Without an AREA, all files of tests/stories are recorded. With
`--only`, situations without this in their name stay as they are. Nothing else writes these files, but for
offsets_shard.txt, which has answers of ours.
"""

import argparse
import contextlib
import gzip
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_offsets.broker.core.api_table import SERVED
from tests.broker.groups import expiry_story
from tests.coordinator.consumer import record_assignor_answers, record_consumer_sessions
from tests.coordinator.state import record_topic_patterns
from tests.differential.brokers import RemoteBroker
from tests.differential.play import TOPICS, Client, Event, Play
from tests.differential.player import Player
from tests.differential.settings import HAVE_USERS, PARTS, SETTINGS, USERS
from tests.differential.stories import (
    COMMANDS,
    IN_PLACE_OF_AN_ANSWER,
    STORIES,
    StoryError,
    file_of,
    part,
    setting_of,
    stored,
)
from tests.stories import admin_stories

ROOT = Path(__file__).resolve().parents[2]
KAFKA = ROOT / "benchmarks" / "peers" / "kafka.sh"
CONSUMER_CAPTURE = ROOT / "tests" / "data" / "captures" / "consumer-sessions.jsonl.gz"
CONSUMER_RECORDS = CONSUMER_CAPTURE.with_name("consumer-sessions-records.jsonl.gz")
SLOW_S = 4.0


def prepare(client: Client) -> None:
    """Have the broker that a client talks to make what every situation finds."""
    topics = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for name, count in TOPICS.items()
    ]
    # Later versions answer all configurations.
    client.ask("CreateTopics", 4, topics=topics, timeout_ms=10_000)
    client.play.until(lambda: client.ask("FindCoordinator", 2, key="g").error_code == 0)


def await_coordinators(client: Client) -> None:
    """Wait until every partition of the offsets topic is served."""
    groups = [f"g{number}" for number in range(24)]
    client.play.until(lambda: client.play.has_loaded(groups))


def listeners_with_users(port: int) -> dict[str, str]:
    """What makes the clients of a Kafka authenticate as users; brokers and controllers stay ANONYMOUS."""
    known = " ".join(f'user_{user}="{user}"' for user in USERS)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{module} required username="admin" password="admin" {known};'
        ),
    }


@contextmanager
def kafka(settings: dict[str, str], port: int) -> Iterator[Path]:
    """A new Kafka; gives the directory of its logs."""
    with tempfile.TemporaryDirectory() as directory:
        extra = Path(directory, "extra.properties")
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        extra.write_text("".join(lines), encoding="utf-8")
        subprocess.run(["bash", str(KAFKA), "start", str(port), directory, str(extra)], check=True)
        try:
            yield Path(directory, "logs")
        finally:
            subprocess.run(["bash", str(KAFKA), "stop", directory], check=True)


def make_ready(host: str, port: int, *, has_users: bool = False) -> None:
    """Have a new broker make what every situation finds."""
    broker = RemoteBroker(host, port, has_users=has_users)
    client = Client(Play(broker, "prepare", ()), "prepare")
    prepare(client)
    await_coordinators(client)
    broker.close()


def play_remote(host: str, port: int, name: str, told: list[Event]) -> list[Event]:
    """Play a situation with a broker on a socket, on connections of its own; slow ones are told."""
    has_users = setting_of(told) in HAVE_USERS
    broker = RemoteBroker(host, port, has_users=has_users)
    started = time.monotonic()
    try:
        events = Player(broker, name).play(told)
        if has_users:
            Player(broker, name).play([["no", "acls"]])
        return events
    finally:
        broker.close()
        if (taken := time.monotonic() - started) > SLOW_S:
            print(f"{name}: {taken:.1f} s", file=sys.stderr, flush=True)


def record(port: int, area: str, only: str) -> None:
    """Record all situations, or those of one area or with `only` in their names."""
    answers = {name: dict(part(name)) for name in PARTS}
    recorded = 0
    for setting in SETTINGS:
        chosen = {
            (of, name): told
            for of, situations in answers.items()
            for name, told in situations.items()
            if setting_of(told) == setting and area in ("", of) and only in name
        }
        if not chosen:
            continue
        has_users = setting in HAVE_USERS
        with kafka(SETTINGS[setting] | (listeners_with_users(port) if has_users else {}), port):
            if setting != "new":
                make_ready("127.0.0.1", port, has_users=has_users)
            for (of, name), told in chosen.items():
                events = play_remote("127.0.0.1", port, name, told)
                if has_silence(events):
                    print(f"{name}: an answer did not come", file=sys.stderr)
                if _requests(events) != _requests(told):
                    print(f"{name}: a request was not sent as it was written", file=sys.stderr)
                if odd := [f"{event[0]} {event[1]}" for event in events if is_no_answer(event)]:
                    print(f"{of}.txt: {name}: not recorded, as {'; '.join(odd)}", file=sys.stderr)
                    continue
                answers[of][name] = events
                recorded += 1
    for of, situations in answers.items():
        (STORIES / f"{of}.txt").write_text(file_of(situations), encoding="utf-8")
    print(f"{recorded} of {sum(map(len, answers.values())):,} situations recorded")
    if not recorded:
        sys.exit(f"none of {area or 'all files'} with {only!r} in its name")


def _requests(events: list[Event]) -> list[Event]:
    """Return the requests with their clients, without the answers."""
    return [event for event in events if len(event) > 2]


def record_administration(port: int) -> None:
    """Record what administrators are answered, each scenario by a Kafka of its own."""
    for scenario, settings in admin_stories.SETTINGS.items():
        with kafka(settings, port):
            broker = RemoteBroker("127.0.0.1", port)
            exchanges = admin_stories.exchanged(broker, admin_stories.stored(scenario))
            broker.close()
        (STORIES / f"admin_{scenario}.txt").write_text(file_of(exchanges), encoding="utf-8")


def record_expiry(port: int) -> None:
    """Record the story of expiry_story.py, which takes two minutes."""
    with kafka({key: str(value) for key, value in expiry_story.SETTINGS.items()}, port):
        broker = RemoteBroker("127.0.0.1", port)
        client = Client(Play(broker, "prepare", ()), "prepare")
        client.play.until(lambda: client.ask("FindCoordinator", 2, key="g").error_code == 0)
        await_coordinators(client)
        began = time.monotonic()
        story = expiry_story.Story(
            lambda: expiry_story.LineClient(broker),
            lambda ms: time.sleep(max(0.0, began + ms / 1000 - time.monotonic())),
        )
        expiry_story.KAFKAS.write_text(expiry_story.text_of(story.tell()), encoding="utf-8")
        broker.close()


def record_consumer_capture(port: int) -> None:
    """Record the sessions of record_consumer_sessions.py, which takes two minutes, and what Kafka stored of them."""
    frames = io.StringIO()
    with kafka(SETTINGS["consumers"], port) as logs:
        with contextlib.redirect_stdout(frames):
            record_consumer_sessions.record("127.0.0.1", port)
        stored_records = "".join(
            json.dumps(row) + "\n" for row in record_consumer_sessions.records_of_groups(logs)
        )
    CONSUMER_CAPTURE.write_bytes(gzip.compress(frames.getvalue().encode(), mtime=0))
    CONSUMER_RECORDS.write_bytes(gzip.compress(stored_records.encode(), mtime=0))


def record_patterns(port: int) -> None:
    """Record what Kafka says of the regular expressions of record_topic_patterns.py."""
    with kafka({}, port):
        record_topic_patterns.record(port)


OTHER_AREAS: dict[str, Callable[[int], None]] = {
    "admin_default": record_administration,
    "admin_refusing": record_administration,
    "expiry_by_time": record_expiry,
    "consumer_capture": record_consumer_capture,
    "assignors": lambda port: record_assignor_answers.record(),
    "topic_patterns": record_patterns,
}
"""What is recorded otherwise than by playing stories."""


def compare(address: str, shown: bool) -> None:
    """Play the situations of the default setting with a broker and print where it agrees with Kafka.

    A broker that ends is taken for one that is started again by its keeper.
    """
    host, _, port = address.rpartition(":")
    agreed, asked, ready = 0, 0, False
    for name, kafkas in stored().items():
        if setting_of(kafkas) != "default" or has_silence(kafkas):
            continue
        asked += 1
        try:
            if not ready:
                make_ready(host, int(port))
                ready = True
            events = comparable(play_remote(host, int(port), name, kafkas), kafkas)
        except (ConnectionError, AssertionError, AttributeError) as error:
            events, ready = [["broker", f"does not go on: {error!r}"]], False
            time.sleep(1)
        kafkas = comparable(kafkas, kafkas)
        agreed += events == kafkas
        if events != kafkas and shown:
            print(difference(name, events, kafkas), flush=True)
    print(f"{agreed} of {asked} situations agree")


def comparable(events: list[Event], kafkas: list[Event]) -> list[Event]:
    """Return events without the APIs that ours does not serve, and what is said of a batch where Kafka says nothing."""
    kept = []
    for number, (*front, last) in enumerate(events):
        theirs = _batches(kafkas[number][-1]) if number < len(kafkas) else []
        for batch, other in zip(_batches(last), theirs, strict=False):
            if "error_message" in batch and other.get("error_message") is None:
                batch["error_message"] = None
        if isinstance(last, dict) and "api_keys" in last:
            rows = [row for row in last["api_keys"] if row["api_key"] in SERVED.by_key]
            last = last | {"api_keys": rows}
        kept.append([*front, last])
    return kept


def _batches(answer: Any) -> list[dict[str, Any]]:
    """Return what is said of each partition, if it is an answer to Produce."""
    topics = answer.get("responses", ()) if isinstance(answer, dict) else ()
    return [partition for topic in topics for partition in topic.get("partition_responses", ())]


def is_no_answer(event: Event) -> bool:
    """Whether an event cannot stand in a story: `was answered before` where the text said `waits`, or is unreadable."""
    return (
        len(event) == 2
        and event[0] not in COMMANDS
        and not isinstance(event[1], dict)
        and (event[1] not in IN_PLACE_OF_AN_ANSWER)
    )


def has_silence(events: list[Event]) -> bool:
    """Whether an answer did not come."""
    return any(event[1:] == ["silence"] for event in events)


def difference(name: str, ours: list[Event], theirs: list[Event]) -> str:
    """Return the first event in which two brokers differ, and the events before it."""
    same = 0
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            break
        same += 1
    before = "\n".join(f"        {json.dumps(event)}" for event in ours[max(0, same - 4) : same])
    mine = json.dumps(ours[same]) if same < len(ours) else "nothing more"
    kafkas = json.dumps(theirs[same]) if same < len(theirs) else "nothing more"
    return f"{name}: event {same}\n{before}\n  Kafka {kafkas}\n  other {mine}"


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--port", type=int, default=19492, help="of the Kafka that is started, and the next one"
    )
    areas = sorted({*PARTS, *OTHER_AREAS})
    parser.add_argument(
        "area", nargs="?", default="", choices=["", *areas], metavar="AREA", help="of which file"
    )
    parser.add_argument("--only", default="", help="record the situations with this in their names")
    parser.add_argument(
        "--compare", metavar="HOST:PORT", help="start nothing, count where this broker agrees"
    )
    parser.add_argument("--quiet", action="store_true", help="with --compare: the count alone")
    given = parser.parse_args()
    if given.only and given.area in OTHER_AREAS:
        parser.error(f"--only: {given.area} is recorded as a whole")
    if given.compare:
        compare(given.compare, not given.quiet)
    elif given.area in OTHER_AREAS:
        OTHER_AREAS[given.area](given.port)
    else:
        record(given.port, given.area, given.only)
        if not given.area and not given.only:
            record_administration(given.port)
            record_expiry(given.port)


if __name__ == "__main__":
    try:
        main()
    except StoryError as error:
        sys.exit(str(error))
