"""What of the processors and of the memory a container may use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.machine.cpus import (
    QUOTA,
    Machine,
    divide,
    find_tightest,
    list_cores,
    read_container,
    read_limit,
    read_machine,
)
from multinode_image.machine.limits import read_flags, read_limits
from tests.support.machines import CGROUP, CPU, Box, cpuset, docker, look_at, nested, pod

GB = 1 << 30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
V1 = "9:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n"
SAPPHIRE = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n"


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, 16 * GB),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, 16 * GB),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1073741824\n"}, GB),
        ({"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/memory.max": "1073741824\n",
          "/sys/fs/cgroup/a/b/memory.max": "2147483648\n"}, GB),
        ({"/proc/self/cgroup": V1, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n"}, 2 * GB),
        ({"/proc/self/cgroup": V1, "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "2147483648\n"}, 2 * GB),
        ({"/proc/self/cgroup": V1, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 * GB),
    ],
)  # fmt: skip
def test_memory_is_the_tightest_limit(files: dict[str, str], memory: int) -> None:
    assert read_limits({"/proc/meminfo": MEMINFO, **files}.get, lambda path: None).memory == memory


@pytest.mark.parametrize(("text", "flag"), [(SAPPHIRE, "amx_bf16"), (GRAVITON, "bf16")])
def test_the_flags_of_x86_and_arm_are_read(text: str, flag: str) -> None:
    assert flag in read_flags(text)
    assert read_flags(None) == read_flags("flags\n") == frozenset()


@pytest.mark.parametrize(("size", "shm"), [(None, None), (1 << 20, 1 << 20), (0, 16 * GB)])
def test_shared_memory_without_a_limit_is_all_memory(size: int | None, shm: int | None) -> None:
    assert read_limits({"/proc/meminfo": MEMINFO}.get, lambda path: None if size is None else (size, 0)).shm == shm


@given(st.text(), st.text(), st.text())
def test_any_text_is_a_limit_or_none(meminfo: str, cgroup: str, limit: str) -> None:
    files = {"/proc/meminfo": meminfo, "/proc/cpuinfo": meminfo, "/proc/self/cgroup": cgroup}
    assert read_limits(lambda path: files.get(path, limit), lambda path: None).memory >= 0


@pytest.mark.parametrize(
    ("text", "limit"), [("max\n", None), ("9223372036854771712\n", None), ("838860800\n", 838860800), ("", None)]
)
def test_a_limit_that_no_machine_reaches_is_none(text: str, limit: int | None) -> None:
    assert read_limit(text) == limit


ONE, TWO, SNC = Box(1, 28, 2), Box(2, 28, 2), Box(2, 56, 2, 4)
HOST = Box(2, 60, 2)


@pytest.mark.parametrize(
    ("machine", "physical", "cores", "filled"),
    [
        (look_at(Box(1, 2)), 2, 2, 1),
        (look_at(ONE), 28, 28, 1),
        (look_at(TWO), 56, 56, 2),
        (look_at(SNC), 112, 112, 8),
        (look_at(Box(1, 8, 2, paired=True)), 8, 8, 1),
        (look_at(Box(1, 96, 2, 4)), 96, 96, 4),  # AMD EPYC with four NUMA nodes per socket
        (look_at(Box(1, 64)), 64, 64, 1),  # arm64: one thread on each core
        (look_at(None), 4, 4, 1),  # a sandbox that hides /sys
        (look_at(HOST, pod(32)), 120, 32, 1),
        (look_at(HOST, pod(64)), 120, 64, 2),
        (look_at(HOST, docker(32)), 120, 32, 1),
        (look_at(HOST, nested(32, 48)), 120, 32, 1),
        (look_at(HOST, nested(32, 0)), 120, 32, 1),
        (look_at(HOST, nested(200, 8)), 120, 8, 1),
        (look_at(HOST, cpuset("0-29,120-149"), cpus="0-29,120-149"), 30, 30, 1),
        (look_at(HOST, cpuset("0-3", unified=False), cpus="0-3"), 4, 4, 1),
        (look_at(Box(1, 2), pod(1.4)), 2, 1, 1),
        (look_at(Box(1, 2), pod(1.5)), 2, 2, 1),
        (look_at(HOST, pod(7.5)), 120, 8, 1),
        (look_at(Box(1, 2), docker(0.5)), 2, 1, 1),
        (look_at(Box(1, 2), docker(0)), 2, 2, 1),
        (look_at(ONE, cpus="0,28"), 1, 1, 1),
        (look_at(TWO, cpus="0-7"), 8, 8, 1),
    ],
)
def test_cores_and_nodes_of_a_machine_are_counted(machine: Machine, physical: int, cores: int, filled: int) -> None:
    assert (machine.physical, machine.cores, machine.filled_nodes) == (physical, cores, filled)


def below(mask: str, launcher: str = "hydra_pmi_proxy") -> dict[str, str]:
    """Put a shell between a launcher with this mask and its rank."""
    return {
        "/proc/7/status": "Name:\tbash\nPPid:\t6\nCpus_allowed_list:\t0-27,56-83\n",
        "/proc/6/status": f"Name:\t{launcher}\nPPid:\t1\nCpus_allowed_list:\t{mask}\n",
        "/proc/1/status": "Name:\ttini\nPPid:\t0\nCpus_allowed_list:\t0-111\n",
    }


@pytest.mark.parametrize(
    ("machine", "pinned", "container_cores", "restricted"),
    [
        (look_at(TWO), False, 56, False),
        (look_at(TWO, parent="0-111"), False, 56, False),
        (look_at(TWO, cpus="0-27,56-83", parent="0-111"), True, 56, True),
        # A shell between the launcher and its rank has the rank's mask: the cgroup knows better.
        (look_at(TWO, cpuset("0-111"), cpus="0-27,56-83", parent="0-27,56-83", by="bash"), True, 56, True),
        # Somebody has given the launcher fewer, and it has pinned no rank; or has.
        *(
            (look_at(TWO, cpuset("0-111"), cpus="0-27,56-83", parent="0-27,56-83", by=launcher), False, 28, True)
            for launcher in ("hydra_pmi_proxy", "mpirun", "mpiexec", "orterun", "orted", "prterun", "prted")
        ),
        (look_at(TWO, cpuset("0-111"), cpus="0-13,56-69", parent="0-27,56-83", by="orted"), True, 28, True),
        # So has one that isolcpus= or CPUAffinity= of systemd keeps from the rest of its cpuset.
        (look_at(TWO, cpuset("0-111"), below("0-27,56-83"), cpus="0-27,56-83"), False, 28, True),
        (look_at(TWO, cpuset("0-111"), below("0-111"), cpus="0-27,56-83"), True, 56, True),
        (look_at(TWO, cpuset("0-111"), below("0-27,56-83", "sshd"), cpus="0-27,56-83"), True, 56, True),
        (look_at(TWO, cpuset("0-27,56-83"), cpus="0-27,56-83", parent="0-27,56-83"), False, 28, True),
        (look_at(TWO, cpuset("0-27", unified=False), cpus="0-13"), True, 28, True),
        (look_at(TWO, pod(8), cpus="0-27", parent="0-111"), True, 8, True),
    ],
)
def test_a_rank_is_pinned_if_it_has_fewer_cores_than_its_container(
    machine: Machine, pinned: bool, container_cores: int, restricted: bool
) -> None:
    assert (machine.pinned, machine.container_cores, machine.restricted) == (pinned, container_cores, restricted)


@pytest.mark.parametrize(
    ("machine", "exclusive"),
    [
        (look_at(Box(1, 2)), True),
        (look_at(Box(1, 2), pod(2)), True),
        (look_at(Box(1, 2), pod(1.9)), False),
        (look_at(Box(1, 2, 2), pod(3)), False),
        (look_at(HOST, pod(4), cpus="0-3"), True),
    ],
)
def test_processors_are_owned_where_a_quota_is_for_all_of_them(machine: Machine, exclusive: bool) -> None:
    assert machine.exclusive is exclusive


@pytest.mark.parametrize("name", ["thread_siblings_list", "core_cpus_list", "none"])
def test_cores_are_known_by_the_old_name_and_the_new_one_of_a_file(name: str) -> None:
    files = {path.replace("thread_siblings_list", name): text for path, text in Box(1, 2, 2).files().items()}
    cores = list_cores(files.get, frozenset(range(4)))
    assert [sorted(core) for core in cores] == ([[0], [1], [2], [3]] if name == "none" else [[0, 2], [1, 3]])


@given(
    st.dictionaries(st.sampled_from(sorted(Box(1, 2).files())), st.text()), st.frozensets(st.integers(0, 9), min_size=1)
)
def test_any_text_of_the_kernel_is_read(files: dict[str, str], cpus: frozenset[int]) -> None:
    machine = read_machine(files.get, cpus, 7)
    assert 1 <= machine.cores <= machine.physical == len(machine.siblings) <= len(cpus)
    assert frozenset().union(*machine.siblings) == cpus
    assert f"{CPU}/online" in Box(1, 2).files()


SPLIT = {"/proc/self/cgroup": "2:cpuacct:/\n1:cpu:/\n0::/\n", f"{CGROUP}/cpu/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"/proc/self/cgroup": "0::/\n", f"{CGROUP}/cpu.max": "max 100000\n"}, None),
        ({**SPLIT, f"{CGROUP}/cpu/cpu.cfs_quota_us": "-1\n"}, None),
        ({**SPLIT, f"{CGROUP}/cpu/cpu.cfs_quota_us": "250000\n"}, 2.5),
        # v1 and v2 at once, as systemd mounts them: the cpu controller is in one of them only.
        ({**docker(4), f"{CGROUP}/unified/cgroup.controllers": "\n"}, 4.0),
        ({"/proc/self/cgroup": "0::/../..\n", f"{CGROUP}/cpu.max": "400000 100000\n"}, 4.0),
    ],
)
def test_the_quota_is_the_smallest_of_all_groups_above(files: dict[str, str], quota: float | None) -> None:
    assert find_tightest(files.get, QUOTA, divide) == quota


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, set()),
        (cpuset("0-2,8"), {0, 1, 2, 8}),
        (cpuset("1", unified=False), {1}),
        ({"/proc/self/cgroup": "0::/a\n", f"{CGROUP}/cpuset.cpus.effective": "0-1\n",
          f"{CGROUP}/a/cpuset.cpus.effective": "1\n"}, {1}),
    ],
)  # fmt: skip
def test_the_set_of_cores_is_that_of_the_lowest_group(files: dict[str, str], cpus: set[int]) -> None:
    assert read_container(files.get, "") == cpus


@given(st.text(), st.text())
def test_any_cgroup_text_is_read(cgroup: str, limits: str) -> None:
    def files(path: str) -> str:
        return cgroup if path == "/proc/self/cgroup" else limits

    quota = find_tightest(files, QUOTA, divide)
    assert quota is None or quota > 0
    assert all(cpu >= 0 for cpu in read_container(files, ""))
