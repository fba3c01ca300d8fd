"""What the answers to a walk taught about its members, producers and sessions, and the values that this gives."""

import re
from typing import Any

from kafka_offsets.protocol.records import encode_batch
from tests.differential.play import subscription
from tests.differential.printed import FIRST_MS, Names
from tests.walks.plan import Step

UNKNOWN: dict[str, Any] = {
    "member": "",
    "generation": -1,
    "protocol": None,
    "epoch": 0,
    "assigned": {},
    "producer": -1,
    "producer_epoch": -1,
    "sequence": 0,
    "session": 0,
    "session_epoch": 0,
}
"""By kind of value: what is sent for one that no answer has given yet."""

SYMBOL = re.compile(r"\$(\w+)\.([^+]*?)([+-]\d+)?")


class Known:
    """The values of one walk with one broker."""

    def __init__(self, prefix: str, names: Names) -> None:
        self._prefix = prefix
        self._names = names
        self._values: dict[tuple[str, str], Any] = {}

    def resolve(self, value: Any) -> Any:
        """Return the value of a field as it is sent."""
        if isinstance(value, list):
            return [self.resolve(each) for each in value]
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict):
            return value
        if "$bytes" in value:
            return value["$bytes"].encode("latin-1")
        if "$subscription" in value:
            return subscription(*self.resolve(value["$subscription"]))
        if "$batch" in value:
            return self._batch(self.resolve(value["$batch"]))
        return {name: self.resolve(each) for name, each in value.items()}

    def _text(self, text: str) -> Any:
        if text.startswith("@"):
            return self._prefix + text[1:]
        if not (symbol := SYMBOL.fullmatch(text)):
            return text
        kind, of, step = symbol.groups()
        value = self._values.get((kind, of), UNKNOWN[kind])
        if kind == "assigned":
            return [
                {"topic_id": topic, "partitions": sorted(owned)} for topic, owned in sorted(value.items())
            ]
        return value + int(step) if step else value

    def _batch(self, spec: dict[str, Any]) -> bytes:
        values = spec.pop("values")
        if spec.get("producer_id", -1) >= 0:
            self._names.learn_producer(spec["producer_id"])
        records = [(v.encode(), v.encode(), (), FIRST_MS + 1000 * n) for n, v in enumerate(values)]
        return bytes(encode_batch(records, **spec))

    def note(self, step: Step, answer: Any) -> None:
        """Remember what an answer says."""
        if learn := NOTED.get(step.api):
            learn(self, step, answer)

    def _set(self, of: str, **values: Any) -> None:
        self._values |= {(kind, of): value for kind, value in values.items()}

    def _note_joined(self, step: Step, answer: Any) -> None:
        if answer.error_code in (0, 79):
            self._set(step.of, member=answer.member_id)
        if not answer.error_code:
            self._set(step.of, generation=answer.generation_id, protocol=answer.protocol_name)

    def _note_beaten(self, step: Step, answer: Any) -> None:
        if answer.error_code:
            return
        self._set(step.of, member=answer.member_id, epoch=answer.member_epoch)
        if answer.member_epoch <= 0:
            self._set(step.of, assigned={})
        elif answer.assignment:
            names = self._names
            self._set(
                step.of,
                assigned={
                    names.topic_text(topic.topic_id).removeprefix("id of "): list(topic.partitions)
                    for topic in answer.assignment.topic_partitions
                },
            )

    def _note_producer(self, step: Step, answer: Any) -> None:
        if answer.error_code or answer.producer_id < 0:
            return
        self._set(step.of, producer=answer.producer_id, producer_epoch=answer.producer_epoch)
        for kind, of in list(self._values):
            if kind == "sequence" and of.startswith(f"{step.of}/"):
                del self._values[kind, of]

    def _note_ended(self, step: Step, answer: Any) -> None:
        if step.version >= 5:
            self._note_producer(step, answer)

    def _note_produced(self, step: Step, answer: Any) -> None:
        asked = [p for topic in step.fields["topic_data"] for p in topic["partition_data"]]
        found = [p for topic in answer.responses for p in topic.partition_responses]
        if len(asked) != 1 or len(found) != 1 or found[0].error_code:
            return
        spec = (asked[0]["records"] or {}).get("$batch", {})
        sequence = str(spec.get("base_sequence", ""))
        if sequence.startswith("$sequence."):
            at = sequence.removeprefix("$sequence.")
            self._set(at, sequence=self._values.get(("sequence", at), 0) + len(spec["values"]))

    def _note_fetched(self, step: Step, answer: Any) -> None:
        if step.version < 7 or answer.error_code:
            return
        epoch = self._values.get(("session_epoch", step.of), 0)
        if answer.session_id and answer.session_id != self._values.get(("session", step.of)):
            epoch = 0
        self._set(step.of, session=answer.session_id, session_epoch=epoch + 1 if answer.session_id else 0)


NOTED = {
    "JoinGroup": Known._note_joined,
    "ConsumerGroupHeartbeat": Known._note_beaten,
    "InitProducerId": Known._note_producer,
    "EndTxn": Known._note_ended,
    "Produce": Known._note_produced,
    "Fetch": Known._note_fetched,
}
"""What is learned from the answer to each API."""
