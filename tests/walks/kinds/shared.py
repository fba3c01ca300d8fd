"""Requests that several kinds of walks draw."""

from typing import Any

from tests.walks.plan import Draw, Step

CLIENTS = "a", "b", "c"
GROUP = "@g"
TOPIC = "@t"
LAST_SEGMENT = {"segment.ms": str(2**63 - 1)}
"""Records are of a fixed time, and markers of now: the log must not begin a segment between them."""


def client(draw: Draw) -> str:
    return draw.one(*CLIENTS)


def group(draw: Draw) -> str:
    return draw.usually(GROUP, "@h", "", odds=0.92)


def own_group(draw: Draw) -> str:
    """A group that offsets are committed to: the one without a name would be that of all walks."""
    return draw.usually(GROUP, "@h", odds=0.92)


def topic_name(draw: Draw) -> str:
    return draw.usually(draw.one("orders", "orders", "pages"), "nothing", "", odds=0.93)


def create_topic(draw: Draw, partitions: int = 3, name: str = TOPIC) -> list[Step]:
    configs = [{"name": key, "value": value} for key, value in LAST_SEGMENT.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": []}
    fields = {"topics": [topic | {"configs": configs}], "timeout_ms": 10_000}
    return [
        Step("admin", "admin", "CreateTopics", 4, fields)
    ]  # newer versions answer with all configurations


def ask(draw: Draw, api: str, of: str = "", version: int | None = None, **fields: Any) -> list[Step]:
    """Return a request, usually on the connection of the one that it is of."""
    of = of or client(draw)
    at = draw.usually(of, *CLIENTS, odds=0.97)
    return [Step(at, of, api, draw.version(api) if version is None else version, fields)]


def list_groups(draw: Draw) -> list[Step]:
    return ask(
        draw,
        "ListGroups",
        states_filter=draw.usually([], ["Stable"], ["empty"], ["Dead", "PreparingRebalance"], ["no"], [""]),
        types_filter=draw.usually([], ["classic"], ["Consumer"], ["no"], ["share"]),
    )


def describe_groups(draw: Draw) -> list[Step]:
    groups = draw.usually([GROUP], [GROUP, "@h"], [], [""], [GROUP, GROUP], ["@never"])
    return ask(draw, "DescribeGroups", groups=groups, include_authorized_operations=draw.usually(False, True))


def describe_consumer_groups(draw: Draw) -> list[Step]:
    groups = draw.usually([GROUP], [GROUP, "@h"], [], [""], [GROUP, GROUP], ["@never"])
    return ask(
        draw,
        "ConsumerGroupDescribe",
        group_ids=groups,
        include_authorized_operations=draw.usually(False, True),
    )


def delete_groups(draw: Draw) -> list[Step]:
    groups = draw.usually([GROUP], [GROUP, "@h"], [], [""], [GROUP, GROUP], ["@never"])
    return ask(draw, "DeleteGroups", groups_names=groups)


def partition(draw: Draw) -> int:
    return draw.usually(draw.one(0, 1), 3, 4, -1)


def commit(
    draw: Draw, generation: str = "$generation.", of: str = "", topics: Any = topic_name
) -> list[Step]:
    """OffsetCommit of a member, or of nobody."""
    of = of or client(draw)
    is_member = draw.random() < 0.6
    wanted = [
        {"name": name, "topic_id": name, "partitions": [_offset(draw) for _ in range(draw.randint(0, 3))]}
        for name in (topics(draw) for _ in range(draw.usually(1, 0, 2)))
    ]
    fields = {
        "group_id": own_group(draw),
        "generation_id_or_member_epoch": draw.usually(
            f"{generation}{of}" if is_member else -1, -1, 0, f"{generation}{of}-1", f"{generation}{of}+1"
        ),
        "member_id": draw.usually(f"$member.{of}" if is_member else "", "", "nobody", "$member.b"),
        "group_instance_id": draw.usually(None, "i-a", "", odds=0.95),
        "topics": wanted,
    }
    return ask(draw, "OffsetCommit", of, **fields)


def _offset(draw: Draw) -> dict[str, Any]:
    return {
        "partition_index": partition(draw),
        "committed_offset": draw.usually(draw.randint(0, 99), -1, -2, 2**63 - 1),
        "committed_leader_epoch": draw.usually(-1, 0, 5, -2),
        "committed_metadata": draw.usually("", "note", None, "long metadata"),
    }


def wanted_offsets(draw: Draw, topics: Any = topic_name) -> list[dict[str, Any]] | None:
    if draw.random() < 0.25:
        return None
    return [
        {"name": name, "topic_id": name, "partition_indexes": draw.some([0, 1, 3, 4, -1])}
        for name in (topics(draw) for _ in range(draw.usually(1, 0, 2)))
    ]


def fetch_offsets(draw: Draw, generation: str = "$generation.", topics: Any = topic_name) -> list[Step]:
    """OffsetFetch of one group or of several."""
    version, of = draw.version("OffsetFetch"), client(draw)
    stable = draw.usually(False, True, odds=0.6)
    if version < 8:
        wanted = wanted_offsets(draw, topics)
        if version < 2 and wanted is None:
            wanted = []
        for topic in wanted or ():
            del topic["topic_id"]
        return ask(
            draw, "OffsetFetch", of, version, group_id=group(draw), topics=wanted, require_stable=stable
        )
    groups = []
    for _ in range(draw.usually(1, 0, 2)):
        is_member = draw.random() < 0.3
        groups.append(
            {
                "group_id": group(draw),
                "member_id": draw.usually(f"$member.{of}" if is_member else None, "", "nobody", odds=0.9),
                "member_epoch": draw.usually(
                    f"{generation}{of}" if is_member else -1, 0, f"{generation}{of}+1", -2, odds=0.9
                ),
                "topics": wanted_offsets(draw, topics),
            }
        )
    return ask(draw, "OffsetFetch", of, version, groups=groups, require_stable=stable)


def delete_offsets(draw: Draw, topics: Any = topic_name) -> list[Step]:
    """OffsetDelete."""
    wanted = [
        {"name": topics(draw), "partitions": [{"partition_index": p} for p in draw.some([0, 1, 3, 4, -1])]}
        for _ in range(draw.usually(1, 0, 2))
    ]
    return ask(draw, "OffsetDelete", group_id=group(draw), topics=wanted)


def find_coordinator(draw: Draw) -> list[Step]:
    keys = draw.usually([GROUP], [], [GROUP, GROUP], [""], ["@h", GROUP])
    return ask(
        draw,
        "FindCoordinator",
        key=draw.usually(GROUP, ""),
        key_type=draw.usually(0, 1, 7, -1),
        coordinator_keys=keys,
    )
