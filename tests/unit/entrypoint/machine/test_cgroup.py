"""Limits of containers, as cgroup v1 and v2 write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine.cgroup import read_cpuset, read_quota
from tests.support.machines import CGROUP, cpuset, docker, nested, pod

CPU = {"/proc/self/cgroup": "2:cpuacct:/\n1:cpu:/\n0::/\n", f"{CGROUP}/cpu/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"/proc/self/cgroup": "0::/\n", f"{CGROUP}/cpu.max": "max 100000\n"}, None),
        (pod(1.5), 1.5),
        (docker(1.5), 1.5),
        (docker(0), None),
        (nested(2, 3), 2.0),
        (nested(3, 2), 2.0),
        (nested(2, 0), 2.0),
        ({**CPU, f"{CGROUP}/cpu/cpu.cfs_quota_us": "-1\n"}, None),
        ({**CPU, f"{CGROUP}/cpu/cpu.cfs_quota_us": "250000\n"}, 2.5),
        # v1 and v2 at once, as systemd mounts them: the cpu controller is in one of them only.
        ({**docker(4), f"{CGROUP}/unified/cgroup.controllers": "\n"}, 4.0),
        ({"/proc/self/cgroup": "0::/../..\n", f"{CGROUP}/cpu.max": "400000 100000\n"}, 4.0),
    ],
)
def test_the_quota_is_the_smallest_of_all_groups_above(files: dict[str, str], quota: float | None) -> None:
    assert read_quota(files.get) == quota


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, set()),
        (pod(2), set()),
        (cpuset("0-2,8"), {0, 1, 2, 8}),
        (cpuset("1", unified=False), {1}),
        ({"/proc/self/cgroup": "0::/a\n", f"{CGROUP}/cpuset.cpus.effective": "0-1\n",
          f"{CGROUP}/a/cpuset.cpus.effective": "1\n"}, {1}),
    ],
)  # fmt: skip
def test_the_set_of_cores_is_that_of_the_lowest_group(files: dict[str, str], cpus: set[int]) -> None:
    assert read_cpuset(files.get) == cpus


@given(st.text(), st.text())
def test_any_cgroup_text_is_read(cgroup: str, limits: str) -> None:
    def files(path: str) -> str:
        return cgroup if path == "/proc/self/cgroup" else limits

    quota = read_quota(files)
    assert quota is None or quota > 0
    assert all(cpu >= 0 for cpu in read_cpuset(files))
