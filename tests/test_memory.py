"""Memory that comes and goes costs new pages once, and not each time. Modules are not searched for garbage."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_offsets.memory import machine_bytes

BLOCKS = """
import resource, sys
from kafka_offsets.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory(16 << 20)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytes(bytearray(b"x") * (1 << 20))
before = faults()
for _ in range(50):
    bytes(bytearray(b"x") * (1 << 20))
print(faults() - before)
"""


def faults(how: str) -> int:
    """Return how many page faults blocks of a mebibyte cost, two of them fifty times."""
    done = subprocess.run([sys.executable, "-c", BLOCKS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have their own ways")
def test_blocks_that_come_and_go_are_taken_from_memory_that_is_kept() -> None:
    assert faults("keep") < 500
    assert faults("not") > 5000


FROZEN = """
import gc, sys, types, weakref
from kafka_offsets.memory import freeze_modules
gc.disable()
class Node: pass
def garbage():
    node = Node()
    node.itself = node
    return weakref.ref(node)
before = garbage()
freeze_modules()
counts = [gc.get_freeze_count(), len(gc.get_objects())]
after = garbage()
freeze_modules()
counts.append(len(gc.get_objects()))
sys.modules["new"] = types.ModuleType("new")
freeze_modules()
counts.append(gc.get_freeze_count())
print(*counts, before() is None, after() is None)
"""


def test_objects_of_modules_are_frozen_once_and_garbage_is_collected_before() -> None:
    done = subprocess.run([sys.executable, "-c", FROZEN], capture_output=True, text=True, check=True)
    frozen, found, found_again, frozen_again, *collected = done.stdout.split()
    assert int(frozen) > 1000 > int(found)
    assert int(found) < int(found_again), "nothing was imported in the meantime"
    assert int(frozen_again) > int(frozen)
    assert collected == ["True", "True"]


def test_the_memory_is_that_of_the_machine() -> None:
    assert machine_bytes(Path("/nowhere")) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/a/b", {"a/b/memory.max": "5000000", "a/memory.max": "max"}),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "5000000"}),
        ("0::/outside", {"memory.max": "5000000"}),
        (
            "3:cpu:/\n2:cpuset,memory:/docker/x\n0::/",
            {
                "memory/memory.limit_in_bytes": "5000000",
                "memory/docker/x/memory.limit_in_bytes": "9223372036854771712",
            },
        ),
    ],
    ids=["version 2", "an outer group", "a container", "version 1"],
)
def test_a_control_group_has_less_memory_than_the_machine(
    tmp_path: Path, groups: str, limits: dict[str, str]
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for name, limit in limits.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit + "\n")
    assert machine_bytes(tmp_path) == 5_000_000
