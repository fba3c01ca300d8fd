"""Java's hash code of a string: it decides which partition holds a group, and the order of Kafka's hash maps.

Source: java.lang.String.hashCode.
"""


def string_hash(text: str) -> int:
    """Return Java's hash code of a string, unsigned. It runs over UTF-16 code units."""
    hashed = 0
    if text.isascii():  # the hash of a group id is on the path of each of its requests; this is twice as fast
        for unit in text.encode():
            hashed = (31 * hashed + unit) & 0xFFFFFFFF
        return hashed
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition of the offsets topic that holds a group: abs(Java's String.hashCode) % count.

    Its leader is the group's coordinator, so that a client can find it without FindCoordinator. The same holds for
    transactional ids. The absolute value of -2**31 is 0. Source: Utils.abs, GroupCoordinatorService.partitionFor.
    """
    hashed = string_hash(group_id)
    if hashed == 0x80000000:
        return 0
    return min(hashed, 0x100000000 - hashed) % partition_count
