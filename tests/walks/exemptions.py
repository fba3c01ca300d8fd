"""Where a walk may differ, and nothing beyond it: each exemption is a row of docs/differences.md.

An exemption looks at one answer of a step. It gets what ours did and what Kafka did, and says whether it explains
that these differ.
"""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from tests.differential.play import Event
from tests.walks.plan import Step

NEVER = "silence"
"""What is noted where an answer should have come."""

UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = (
    3,
    12,
    25,
    27,
)
CLUSTER_WIDE, DEFAULT = 3, 5
UNKNOWN_SERVER_ERROR, INCONSISTENT_GROUP_PROTOCOL = -1, 23
GROUP = 32
OTHER_GROUPS = "share.", "streams.", "errors.deadletterqueue."
"""The beginnings of the keys of groups that ours does not serve."""
NEWER_KEYS = {
    "errors.deadletterqueue.group.enable",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}
"""The keys of topics that Kafka has since 4.4."""

ROWS: dict[str, str] = {
    "shown_for_the_cluster": "shows a cluster-wide `min.insync.replicas`",
    "without_other_groups": "any number of groups can have a configuration, also share and streams groups",
    "without_newer_keys": "Kafka 4.4 has four more keys of topics",
    "without_begun_batch": "fills a limit up with the beginning of a batch",
    "with_reasons": "gives no reason when it refuses bytes that are no batch",
    "with_older_error": "Kafka 4.4 answers INCONSISTENT_GROUP_PROTOCOL",
    "may_be_forgotten": "a member id that an empty consumer group does not know makes the coordinator forget the group",
    "may_be_half_made": "a request whose offsets are all refused for their metadata creates the group",
    "is_replaced_join": "if a member joins again while its earlier join waits, the earlier one never gets a response",
    "is_replaced_sync": "if a member syncs again while its earlier sync waits, the earlier one never gets a response",
    "is_lost_marker": "if one of several markers has no partition that exists, or if a marker names a partition twice",
    "is_sync_of_removed": "if a member is removed while its request waits, the request never gets a response",
}
"""By function: what docs/differences.md says."""


def shown_for_the_cluster(value: Any) -> Any:
    """Return what Kafka answers with its configuration of the cluster, the default of one key, as a default."""
    if isinstance(value, dict):
        if value.get("name") == "min.insync.replicas" and "config_source" in value:
            return value | _shown_as_default(value)
        return {name: shown_for_the_cluster(each) for name, each in value.items()}
    return [shown_for_the_cluster(each) for each in value] if isinstance(value, list) else value


def without_other_groups(value: Any) -> Any:
    """Return what Kafka answers about the configuration of a group without the keys of other kinds of groups."""
    if isinstance(value, list):
        return [without_other_groups(each) for each in value]
    if isinstance(value, dict) and value.get("resource_type") == GROUP and "configs" in value:
        kept = [each for each in value["configs"] if not each["name"].startswith(OTHER_GROUPS)]
        return value | {"configs": kept}
    if isinstance(value, dict):
        return {name: without_other_groups(each) for name, each in value.items()}
    return value


def without_newer_keys(value: Any) -> Any:
    """Return what Kafka answers without the keys of topics that are new in 4.4."""
    if isinstance(value, list):
        kept = [each for each in value if not (isinstance(each, dict) and each.get("name") in NEWER_KEYS)]
        return [without_newer_keys(each) for each in kept]
    if isinstance(value, dict):
        return {name: without_newer_keys(each) for name, each in value.items()}
    return value


def without_begun_batch(ours: Any, kafkas: Any) -> Any:
    """Return what Kafka answers without the beginning of a batch after the whole ones, where ours has these."""
    if isinstance(ours, list) and isinstance(kafkas, list) and len(ours) == len(kafkas):
        return [without_begun_batch(mine, theirs) for mine, theirs in zip(ours, kafkas, strict=True)]
    if not isinstance(ours, dict) or not isinstance(kafkas, dict) or ours.keys() != kafkas.keys():
        return kafkas
    shown = {name: without_begun_batch(ours[name], theirs) for name, theirs in kafkas.items()}
    mine, theirs = ours.get("records"), kafkas.get("records")
    if "high_watermark" in ours and isinstance(mine, str) and isinstance(theirs, str):
        begun = theirs.removeprefix(mine).encode("latin-1")
        is_begun = len(begun) < 12 or len(begun) < 12 + int.from_bytes(begun[8:12], "big")
        if mine and theirs.startswith(mine) and is_begun:
            shown["records"] = mine
    return shown


def with_reasons(ours: Any, kafkas: Any) -> Any:
    """Return what Kafka answers to Produce with the words of ours about a refused batch where Kafka says nothing."""
    if isinstance(ours, list) and isinstance(kafkas, list) and len(ours) == len(kafkas):
        return [with_reasons(mine, theirs) for mine, theirs in zip(ours, kafkas, strict=True)]
    if not isinstance(ours, dict) or not isinstance(kafkas, dict) or ours.keys() != kafkas.keys():
        return kafkas
    shown = {name: with_reasons(ours[name], theirs) for name, theirs in kafkas.items()}
    if "base_offset" in kafkas and "error_message" in kafkas and kafkas["error_message"] is None:
        shown["error_message"] = ours["error_message"]
    return shown


def with_older_error(ours: list[Event], kafkas: list[Event]) -> list[Event]:
    """Return what Kafka 4.4 answers to a JoinGroup with the error that 4.3 has for a subscription it cannot read."""
    shown = []
    for mine, theirs in zip_longest(ours, kafkas):
        is_newer = (
            mine
            and theirs
            and isinstance(mine[-1], dict)
            and isinstance(theirs[-1], dict)
            and mine[-1].get("error_code") == UNKNOWN_SERVER_ERROR
            and theirs[-1].get("error_code") == INCONSISTENT_GROUP_PROTOCOL
        )
        shown.append(
            mine
            if is_newer and mine[-1] | {"error_code": INCONSISTENT_GROUP_PROTOCOL} == theirs[-1]
            else theirs
        )
    return [each for each in shown if each is not None]


def may_be_forgotten(step: Step, ours: list[Event], state: Callable[[str], str]) -> bool:
    """Whether Kafka has lost a group from its memory: what follows has no meaning.

    state  returns the state of a consumer group with ours, "Dead" where there is none
    """
    if step.api != "JoinGroup":
        return False
    (_, _, request), *answers = ours
    refused = any(isinstance(a, dict) and a.get("error_code") == UNKNOWN_MEMBER_ID for _, a in answers)
    return refused and bool(request["member_id"]) and state(step.fields["group_id"]) == "Empty"


def may_be_half_made(step: Step, ours: list[Event], state: Callable[[str], str]) -> bool:
    """Whether Kafka has made a group for offsets that it refused: some requests see it, others do not.

    state  returns the state of a classic group with ours, "Dead" where there is none
    """
    if step.api not in ("OffsetCommit", "TxnOffsetCommit"):
        return False
    partitions = [
        partition
        for _, answer in ours[1:]
        if isinstance(answer, dict)
        for topic in answer["topics"]
        for partition in topic["partitions"]
    ]
    refused = any(partition["error_code"] == OFFSET_METADATA_TOO_LARGE for partition in partitions)
    return refused and state(step.fields["group_id"]) == "Dead"


def _shown_as_default(config: dict[str, Any]) -> dict[str, Any]:
    shown = {}
    if config["config_source"] == CLUSTER_WIDE:
        shown["config_source"] = DEFAULT
    if "synonyms" in config:
        shown["synonyms"] = [each for each in config["synonyms"] if each["source"] != CLUSTER_WIDE]
    return shown


def is_replaced_join(step: Step, request: dict[str, Any], answer: Any) -> bool:
    """Whether a waiting join is answered because its member joins once more."""
    return (
        step.api == "JoinGroup"
        and isinstance(answer, dict)
        and "leader" in answer
        and answer["error_code"] == REBALANCE_IN_PROGRESS
        and bool(answer["member_id"])
    )


def is_replaced_sync(step: Step, request: dict[str, Any], answer: Any) -> bool:
    """Whether a waiting sync is answered because its member syncs once more."""
    return (
        step.api == "SyncGroup"
        and isinstance(answer, dict)
        and "assignment" in answer
        and answer["error_code"] == REBALANCE_IN_PROGRESS
    )


def is_sync_of_removed(step: Step, request: dict[str, Any], answer: Any) -> bool:
    """Whether a waiting sync is answered because its member was removed."""
    return (
        step.api == "LeaveGroup"
        and isinstance(answer, dict)
        and "assignment" in answer
        and answer["error_code"] == UNKNOWN_MEMBER_ID
    )


def is_lost_marker(step: Step, request: dict[str, Any], answer: Any) -> bool:
    """Whether one of several markers has no partition that exists, or one names a partition twice."""
    if step.api != "WriteTxnMarkers" or not isinstance(answer, dict):
        return False
    unknown = {
        (marker["producer_id"], topic["name"], partition["partition_index"])
        for marker in answer["markers"]
        for topic in marker["topics"]
        for partition in topic["partitions"]
        if partition["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    }
    named = [
        [
            (m["producer_id"], topic["name"], index)
            for topic in m["topics"]
            for index in topic["partition_indexes"]
        ]
        for m in request["markers"]
    ]
    is_skipped = len(named) > 1 and any(unknown.issuperset(each) for each in named)
    return is_skipped or any(len(set(each)) < len(each) for each in named)


UNANSWERED = is_replaced_join, is_replaced_sync, is_sync_of_removed, is_lost_marker


def never_answered(step: Step, ours: list[Event]) -> set[str]:
    """Return the connections that ours answers and Kafka need not."""
    (_, _, request), *answers = ours
    return {
        label for label, answer in answers if any(explains(step, request, answer) for explains in UNANSWERED)
    }


def as_ours(step: Step, ours: list[Event], kafkas: list[Event]) -> list[Event]:
    """Return what Kafka did in a step, as ours does what is exempt."""
    kafkas = without_begun_batch(ours, shown_for_the_cluster(kafkas))
    if step.api == "DescribeConfigs":
        kafkas = without_other_groups(kafkas)
    if step.api in ("DescribeConfigs", "CreateTopics"):
        kafkas = without_newer_keys(kafkas)
    if step.api == "JoinGroup":
        kafkas = with_older_error(ours, kafkas)
    if step.api == "Produce":
        kafkas = with_reasons(ours, kafkas)
    if NEVER not in (event[-1] for event in kafkas):
        return kafkas
    exempt = never_answered(step, ours)
    own = {event[0]: event for event in ours[1:]}
    return [own[event[0]] if event[-1] == NEVER and event[0] in exempt else event for event in kafkas]
