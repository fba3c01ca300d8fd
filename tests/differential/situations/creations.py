"""Metadata that creates topics."""

from typing import Any

from tests.differential.play import Play
from tests.differential.table import situation


@situation("auto.create.topics.enable: Metadata creates topics", (1, 4, 9, 12, 13), setting="creating")
def asked_for(w: Play, version: int) -> None:
    a, new = w.client("a"), w.slug

    def ask(*names: str, **fields: Any) -> None:
        a.ask("Metadata", version, topics=[{"name": name} for name in names], **fields)

    def exists(*names: str) -> None:
        w.until(lambda: not any(topic.error_code for topic in w.learn(*names).topics))

    ask(new)
    exists(new)
    ask(new)
    ask(f"{new}.1", "orders", f"{new}.2", new)
    exists(f"{new}.1", f"{new}.2")
    ask(f"{new}.1", f"{new}.2")
    ask("", "a b", "..", "x" * 250, f"{new}_1")
    if version >= 4:
        ask(f"{new}.3", allow_auto_topic_creation=False)
        ask(f"{new}.3", new, allow_auto_topic_creation=False)


@situation("a topic is created again when it was deleted", setting="creating")
def asked_for_again(w: Play) -> None:
    a, name = w.client("a"), w.topic(1)
    a.ask("DeleteTopics", 5, topic_names=[name], timeout_ms=5000)
    w.until(lambda: bool(w.learn(name).topics[0].error_code))
    a.ask("Metadata", 5, topics=[{"name": name}])
    w.until(lambda: len(w.learn(name).topics[0].partitions) == 3)
    a.ask("Metadata", 5, topics=[{"name": name}])
