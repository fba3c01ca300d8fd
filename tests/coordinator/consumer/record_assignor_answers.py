"""Asks Kafka's own assignors and maps what they do with a table of groups, and keeps it for the tests.

`python -m tests.stories.record assignors` does it.
java -cp "$KAFKA_PEER_HOME/libs/*" is Kafka 4.3.1 as benchmarks/peers/kafka.sh keeps it.
"""

import gzip
import os
import random
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ANSWERS = HERE.parent / "data" / "assignor_answers.tsv.gz"
HOME = Path(os.environ.get("KAFKA_PEER_HOME", Path.home() / ".cache" / "kafka-peer-4.3.1"))
GROUPS = 500
ORDERS = 80
TOO_MANY = 16
"""Above so many partitions of a topic, Kafka gives them up in an order of its history."""


def groups(rng: random.Random) -> list[str]:
    """Groups whose members have something, of an earlier assignment, and have come, gone, or changed their topics."""
    lines: list[str] = []
    for number in range(GROUPS):
        many = number % 10 == 9
        topics = {
            rng.randbytes(16).hex(): rng.randrange(1, TOO_MANY)
            for _ in range(rng.randrange(1, 5 + 20 * many))
        }
        alike = rng.random() < 0.5
        chosen = rng.sample(sorted(topics), rng.randrange(0 if number % 25 == 0 else 1, len(topics) + 1))
        names = [
            rng.choice(("a", "B", "ß", "😀", "\ufffd")) + f"{rng.randrange(1 << 30):x}"
            for _ in range(20 if many else 6)
        ]
        members = names[: rng.randrange(1, len(names))]
        owners: dict[tuple[str, int], str] = {}
        for topic, count in topics.items():
            for partition in range(count):
                if rng.random() < 0.7:
                    owners[topic, partition] = rng.choice(members[: 1 + rng.randrange(len(members))])
        words = [
            "assign",
            rng.choice(("uniform", "uniform", "range")),
            "HOMOGENEOUS" if alike else "HETEROGENEOUS",
        ]
        words.append(" ".join(f"{topic}={count}" for topic, count in topics.items()))
        for member in members:
            wanted = chosen if alike else rng.sample(sorted(topics), rng.randrange(0, len(topics) + 1))
            target: dict[str, list[str]] = {}
            for (topic, partition), owner in owners.items():
                if owner == member:
                    target.setdefault(topic, []).append(str(partition))
            instance = rng.choice(("", "", f"i{rng.randrange(100)}-{member}"))
            said = " ".join(f"{topic}={','.join(partitions)}" for topic, partitions in target.items())
            words += [member, instance, " ".join(wanted), said]
        lines.append("\t".join(words))
    return lines


def orders(rng: random.Random) -> list[str]:
    """Names to be put into maps."""
    lines = []
    for size in [*range(ORDERS), *(2, 3, 4, 5) * 10]:
        names = sorted({f"{rng.choice(('m-', 'ü', '😀'))}{rng.randrange(1 << 40):x}" for _ in range(size)})
        rng.shuffle(names)
        if size:
            lines.append("\t".join(["order", *names]))
        put = rng.randrange(0, size + 1)
        each = [f"+{name}" for name in names[:put]] + [f"?{name}" for name in names[put:]]
        lines.append("\t".join(["compute", str(rng.choice((put, 0, size))), *each]))
    return lines


def record() -> None:
    """Ask all questions, and keep the answers."""
    rng = random.Random(20260)
    questions = [*groups(rng), *orders(rng)]
    done = subprocess.run(
        ["java", "-cp", f"{HOME}/libs/*", str(HERE / "AssignorAnswers.java")],
        input="\n".join(questions) + "\n",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    text = "".join(f"{question}\n{answer}\n" for question, answer in zip(questions, answers, strict=True))
    ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(questions)} answers, {ANSWERS.stat().st_size} bytes")
