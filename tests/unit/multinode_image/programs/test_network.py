"""What `doctor --network` prints of what it has measured; with stand-ins for torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from multinode_image.programs.scaling import Link

MB = 1e6
NAME = "multinode_image.programs.network"


@pytest.fixture
def network() -> Iterator[Any]:
    """Import the program beside stand-ins of what it imports."""
    modules = {name: ModuleType(name) for name in ("torch", "torch.distributed")}
    vars(modules["torch"])["distributed"] = modules["torch.distributed"]
    vars(modules["torch"])["Tensor"] = object
    with mock.patch.dict(sys.modules, modules):
        for name in (NAME, "multinode_image.programs.leave"):
            sys.modules.pop(name, None)
        yield importlib.import_module(NAME)


def read_rows(text: str) -> dict[str, list[str]]:
    """Return the cells of the table by the first column."""
    return {line[:30].strip(): line[30:].split() for line in text.splitlines() if "weights" in line[:30]}


def test_a_slow_network_costs_more_and_less_where_less_is_sent(network: Any) -> None:
    steps = {"float32": 0.5, "bfloat16": 0.2}

    said = network.describe(network.Measured("gloo", 2, 1, Link(119.6e6, 2e-4), steps))

    assert "120 MB/s (0.96 Gbit/s of data), a message takes 0.20 ms" in said
    rows = read_rows(said)
    assert rows["66 million weights, float32"][:2] == ["3.00", "s"]
    assert rows["110 million weights, bfloat16"][:2] == ["2.40", "s"]
    for cells in rows.values():
        off, float32, bf16, _ = (int(cell.rstrip("%")) for cell in cells[2:])
        assert off > float32 > bf16
    assert int(rows["66 million weights, bfloat16"][2][:-1]) > int(rows["66 million weights, float32"][2][:-1])


def test_a_processor_without_units_has_no_rows_for_bfloat16(network: Any) -> None:
    said = network.describe(network.Measured("gloo", 2, 1, Link(1e9), {"float32": 0.5}))

    assert [name.partition(", ")[2] for name in read_rows(said)] == ["float32", "float32"]


@pytest.mark.parametrize(("flags", "elsewhere", "types"), [
    ("avx512_bf16", 0.0, ["float32", "bfloat16"]), ("avx512_bf16", 1.0, ["float32"]), ("avx2", 0.0, ["float32"]),
])  # fmt: skip
def test_ranks_measure_bfloat16_where_all_have_units(
    network: Any, flags: str, elsewhere: float, types: list[str]
) -> None:
    vars(network.dist)["get_world_size"] = lambda: 2
    vars(network.torch)["get_num_threads"] = lambda: 1
    seen: dict[str, Any] = {
        "read_text": lambda _: f"flags : {flags}\n",
        "measure_link": lambda: Link(1e9),
        "slowest": lambda mine: max(mine, elsewhere),
        "time_layer": lambda *, lowered: 2.0 - lowered,
    }
    with mock.patch.multiple(network, **seen):
        assert list(network.measure("gloo").steps) == types


@pytest.mark.parametrize(("rate", "burst", "stall"), [
    (12 * MB, 0, 0), (12 * MB, 1.25 * MB, 0), (37 * MB, 3.75 * MB, 0), (0.5 * MB, 1.25 * MB, 0), (5e9, 0, 0),
    (12 * MB, 1.25 * MB, 3), (37 * MB, 0, 3), (1e9, 0, 3),
])  # fmt: skip
def test_a_limit_is_found_behind_its_burst_and_a_stalled_moment(
    network: Any, rate: float, burst: float, stall: float
) -> None:
    """burst: bytes that pass at once in the beginning; stall: seconds of one sum more, after 1.6 seconds of sums."""
    clock, left = 0.0, burst

    def time_sum(numbers: int) -> float:
        nonlocal clock, left
        before, size = clock, numbers * 4
        clock += 1e-4 + max(size - left, 0) / rate
        left = max(left - size, 0)
        clock += stall if before <= 1.6 < clock else 0
        return clock - before

    vars(network.torch)["zeros"] = lambda count: count
    vars(network.dist)["get_world_size"] = lambda: 2
    with mock.patch.multiple(network, time_sum=time_sum, slowest=float):
        assert network.measure_link().bandwidth == pytest.approx(rate, rel=0.05)
    assert clock < 20
