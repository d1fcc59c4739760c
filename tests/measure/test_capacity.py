"""Cores and memory that a process may use, from planted /proc and /sys trees."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench.measure.capacity import usable_cores, usable_memory_bytes

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
GIB = 2**30


def plant(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


def meminfo(available: int) -> dict[str, object]:
    return {
        "proc/meminfo": f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable: {available // 1024} kB"
    }


def test_without_a_container_the_cores_are_those_of_the_affinity(tmp_path):
    assert usable_cores(tmp_path) == CORES
    assert usable_cores(plant(tmp_path, {"proc/self/cgroup": "0::/"})) == CORES


@pytest.mark.parametrize(
    "written, cores",
    [
        ("100000 100000", 1),
        ("50000 100000", 1),
        (f"{CORES * 100000 + 300000} 100000", CORES),
        ("max 100000", CORES),
        ("", CORES),
    ],
)
def test_quota_of_v2(tmp_path, written, cores):
    plant(
        tmp_path, {"proc/self/cgroup": "0::/box/inner", "sys/fs/cgroup/box/inner/cpu.max": written}
    )
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize("folder", ["", "box/", "box/inner/"])
def test_a_quota_of_a_parent_counts(tmp_path, folder):
    """Also where the path is one of the machine outside and only the mount is there."""
    plant(
        tmp_path,
        {"proc/self/cgroup": "0::/box/inner", f"sys/fs/cgroup/{folder}cpu.max": "100000 100000"},
    )
    assert usable_cores(tmp_path) == 1


def test_a_quota_of_another_cgroup_does_not_count(tmp_path):
    plant(tmp_path, {"proc/self/cgroup": "0::/box", "sys/fs/cgroup/other/cpu.max": "100000 100000"})
    assert usable_cores(tmp_path) == CORES


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("quota, cores", [(100000, 1), (-1, CORES)])
def test_quota_of_v1(tmp_path, mount, quota, cores):
    folder = f"sys/fs/cgroup/{mount}/box"
    plant(
        tmp_path,
        {
            "proc/self/cgroup": f"4:memory:/elsewhere\n3:{mount}:/box\n0::/",
            f"{folder}/cpu.cfs_quota_us": quota,
            f"{folder}/cpu.cfs_period_us": 100000,
        },
    )
    assert usable_cores(tmp_path) == cores


def test_memory_without_a_container_is_what_is_available(tmp_path):
    assert usable_memory_bytes(plant(tmp_path, meminfo(8 * GIB))) == 8 * GIB


def test_a_system_without_these_files_says_nothing_of_memory(tmp_path):
    assert usable_memory_bytes(tmp_path) is None


@pytest.mark.parametrize(
    "limit, used, cached, left",
    [
        (4 * GIB, GIB, 0, 3 * GIB),
        (4 * GIB, 3 * GIB, 2 * GIB, 3 * GIB),  # what is only cached counts as free
        (GIB, 2 * GIB, 0, 0),
        (64 * GIB, GIB, 0, 8 * GIB),
        ("max", GIB, 0, 8 * GIB),
    ],
)
def test_memory_of_v2(tmp_path, limit, used, cached, left):
    folder = "sys/fs/cgroup/box"
    plant(
        tmp_path,
        {
            **meminfo(8 * GIB),
            "proc/self/cgroup": "0::/box",
            f"{folder}/memory.max": limit,
            f"{folder}/memory.current": used,
            f"{folder}/memory.stat": f"anon 5\ninactive_file {cached}\nactive_file {7 * GIB}",
        },
    )
    assert usable_memory_bytes(tmp_path) == left


def test_memory_of_v1_takes_the_narrowest_limit_of_the_parents(tmp_path):
    tree = {
        **meminfo(8 * GIB),
        "proc/self/cgroup": "3:cpu,cpuacct:/\n4:memory:/box/inner\n0::/",
    }
    for folder, limit in {
        "box/inner": 9223372036854771712,
        "box": 2 * GIB,
        "": 9223372036854771712,
    }.items():
        tree[f"sys/fs/cgroup/memory/{folder}/memory.limit_in_bytes"] = limit
        tree[f"sys/fs/cgroup/memory/{folder}/memory.usage_in_bytes"] = GIB
    tree["sys/fs/cgroup/memory/box/memory.stat"] = f"cache 1\ntotal_inactive_file {GIB // 2}"
    assert usable_memory_bytes(plant(tmp_path, tree)) == 2 * GIB - GIB // 2


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_this_machine_says_its_memory():
    assert 0 < usable_memory_bytes() < 2**50
    assert 1 <= usable_cores() <= CORES
