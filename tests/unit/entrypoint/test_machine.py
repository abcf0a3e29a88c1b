"""Invented machines, and what a process may use of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine import Machine, read_machine, read_quota
from entrypoint.numbers import write_cpus

CPU = "/sys/devices/system/cpu/cpu{}/topology/{}"


def invent(sockets: int, cores: int, threads: int, nodes_each: int = 1) -> dict[str, str]:
    """Write the files of a machine numbered as Linux does: all first threads, then all second ones."""
    total = sockets * cores
    files: dict[str, str] = {"/sys/devices/system/node/online": f"0-{sockets * nodes_each - 1}\n"}
    for cpu in range(total * threads):
        core = cpu % total
        siblings = frozenset(core + total * thread for thread in range(threads))
        package = frozenset(
            c + total * t for c in range(core // cores * cores, (core // cores + 1) * cores) for t in range(threads)
        )
        files[CPU.format(cpu, "thread_siblings_list")] = write_cpus(siblings)
        files[CPU.format(cpu, "core_siblings_list")] = write_cpus(package)
    each = total // (sockets * nodes_each)
    for node in range(sockets * nodes_each):
        cpus = frozenset(c + total * t for c in range(node * each, (node + 1) * each) for t in range(threads))
        files[f"/sys/devices/system/node/node{node}/cpulist"] = write_cpus(cpus)
    return files


def read(files: dict[str, str], cpus: frozenset[int], *, pinned: bool = False) -> Machine:
    return read_machine(files.get, cpus, 7, pinned)


V1 = "/sys/fs/cgroup/cpu,cpuacct"
V2 = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "{} 100000\n"}


def limit(processors: float) -> dict[str, str]:
    return {name: text.format(int(processors * 100000)) for name, text in V2.items()}


@pytest.mark.parametrize(
    ("files", "count", "physical", "cores", "sockets", "filled"),
    [
        (invent(1, 2, 1), 2, 2, 2, 1, 1),
        (invent(1, 28, 2), 56, 28, 28, 1, 1),
        (invent(2, 28, 2), 112, 56, 56, 2, 2),
        (invent(2, 28, 1), 56, 56, 56, 2, 2),
        (invent(2, 56, 2, 4), 224, 112, 112, 2, 8),
        ({**invent(2, 60, 2), **limit(32)}, 240, 120, 32, 2, 1),
        ({**invent(2, 60, 2), **limit(64)}, 240, 120, 64, 2, 2),
        ({**invent(1, 2, 1), **limit(1.5)}, 2, 2, 1, 1, 1),
        ({**invent(1, 2, 1), **limit(0.5)}, 2, 2, 1, 1, 1),
        ({}, 4, 4, 4, 1, 1),
    ],
)
def test_machines(files: dict[str, str], count: int, physical: int, cores: int, sockets: int, filled: int) -> None:
    machine = read(files, frozenset(range(count)))
    found = (machine.physical, machine.cores, machine.filled_nodes)
    assert found == (physical, cores, filled)
    assert machine.sockets == sockets


def test_a_mask_within_one_socket_is_one_node() -> None:
    machine = read(invent(2, 28, 2), frozenset(range(8)))
    assert (machine.physical, machine.sockets, machine.nodes) == (8, 1, (frozenset(range(8)),))


def test_siblings_of_one_core_count_once() -> None:
    assert read(invent(1, 28, 2), frozenset({0, 28})).cores == 1


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        (limit(1.5), 1.5),
        (
            {"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/cpu.max": "200000 100000",
             "/sys/fs/cgroup/a/b/cpu.max": "300000 100000"}, 2.0,
        ),
        (
            {"/proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n", f"{V1}/cpu.cfs_quota_us": "150000\n",
             f"{V1}/cpu.cfs_period_us": "100000\n"}, 1.5,
        ),
        (
            {"/proc/self/cgroup": "4:cpu:/\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
             "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None,
        ),
    ],
)  # fmt: skip
def test_quota(files: dict[str, str], quota: float | None) -> None:
    assert read_quota(files.get) == quota


def test_a_rank_is_pinned_if_its_parent_has_more() -> None:
    files = {**invent(1, 4, 1), "/proc/7/status": "Name:\thydra\nCpus_allowed_list:\t0-3\n"}
    assert read(files, frozenset({0, 1})).pinned
    assert not read(files, frozenset(range(4))).pinned
    assert read(files, frozenset(range(4)), pinned=True).pinned


@given(st.text(), st.text())
def test_any_cgroup_text_is_read(cgroup: str, limits: str) -> None:
    quota = read_quota(lambda path: cgroup if path == "/proc/self/cgroup" else limits)
    assert quota is None or quota > 0
