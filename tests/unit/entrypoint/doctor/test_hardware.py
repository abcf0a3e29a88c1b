"""What the machine gives a training: one fault at a time."""

from __future__ import annotations

import pytest

from entrypoint.doctor.view import OK, WARNING, WRONG
from tests.support.doctor import GB, HEALTHY, LIMITS, MACHINE, PROBE, find_faults, find_rows, on, with_environ


@pytest.mark.parametrize(
    ("change", "name", "state", "said"),
    [
        ({"limits": LIMITS._replace(flags=frozenset({"avx2"}))}, "units", WARNING, "avx2; none computes in bf16"),
        ({"probe": PROBE._replace(bfloat16=86.4, float32=165.2)}, "speed", WARNING, "86 GFLOP/s in bfloat16, 165 in"),
        ({"limits": LIMITS._replace(shm=64 << 20)}, "shm", WARNING, "64 MB"),
        ({"limits": LIMITS._replace(shm=65_536_000)}, "shm", WARNING, "62 MB"),
        ({"limits": LIMITS._replace(shm=65_535_999)}, "shm", WRONG, "62 MB"),
        ({"limits": LIMITS._replace(shm=1 << 20)}, "shm", WRONG, "1 MB"),
        ({"limits": LIMITS._replace(shm=None)}, "shm", WRONG, "0 MB"),
        ({"limits": LIMITS._replace(memory=GB)}, "memory", WARNING, "1.0 GB"),
        ({"limits": LIMITS._replace(memory=GB // 2)}, "memory", WRONG, "512 MB"),
        ({"decision": on(MACHINE._replace(quota=0.5))}, "cores", WARNING, "quota 0.5"),
        ({"decision": with_environ(OMP_NUM_THREADS="64")}, "threads", WRONG, "OMP_NUM_THREADS=64 on 4"),
        ({"probe": PROBE._replace(threads=1)}, "threads", WARNING, "torch takes 1"),
    ],
)
def test_a_fault_is_named_with_its_remedy(change: dict[str, object], name: str, state: str, said: str) -> None:
    (found,) = find_faults(HEALTHY._replace(**change))  # type: ignore[arg-type]
    assert (found.name, found.state) == (name, state)
    assert said in found.value and found.remedy


@pytest.mark.parametrize(
    ("flags", "bfloat16", "said"),
    [
        ({"amx_bf16"}, 1400.0, "1400 GFLOP/s in bfloat16, 165 in float32, on one core"),
        ({"avx512_bf16"}, 133.0, "133 GFLOP/s"),
        ({"amx_bf16"}, 0.0, "not measured"),
        ({"avx2"}, 1.0, "1 GFLOP/s"),
    ],
)
def test_bfloat16_that_is_no_slower_or_said_to_be_emulated_is_no_fault(
    flags: set[str], bfloat16: float, said: str
) -> None:
    probe, limits = PROBE._replace(bfloat16=bfloat16, float32=165.0), LIMITS._replace(flags=frozenset(flags))
    rows = find_rows(HEALTHY._replace(probe=probe, limits=limits))
    assert rows["speed"].state == OK and said in rows["speed"].value


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: Xeon\nmodel name\t: Other\n", "Xeon"),
        ("processor\t: 0\nCPU part\t: 0xd0c\n", "0xd0c"),
        ("Model\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
        ("model name without a colon\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_processor_has_a_name_or_a_number(cpuinfo: str, name: str) -> None:
    assert find_rows(HEALTHY._replace(cpuinfo=cpuinfo))["processor"].value == name


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (({0, 1, 2, 3},), "1 node(s) on 1 socket(s): 0-3"),
        (({0, 1}, {2, 3}), "2 node(s) on 1 socket(s): 0-1 | 2-3"),
    ],
)
def test_processors_are_listed_by_numa_node(nodes: tuple[set[int], ...], said: str) -> None:
    machine = MACHINE._replace(nodes=tuple(map(frozenset, nodes)))
    rows = find_rows(HEALTHY._replace(decision=on(machine)))
    assert rows["NUMA"].value == said


@pytest.mark.parametrize(
    ("flags", "said"), [({"amx_bf16", "avx2", "sse"}, "avx2 amx_bf16"), ({"bf16", "sve"}, "sve bf16")]
)
def test_units_are_listed_in_one_order(flags: set[str], said: str) -> None:
    assert find_rows(HEALTHY._replace(limits=LIMITS._replace(flags=frozenset(flags))))["units"].value == said
