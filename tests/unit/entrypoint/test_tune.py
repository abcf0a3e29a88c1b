"""Variables for worlds on machines, worked out by hand."""

from __future__ import annotations

import pytest

from entrypoint.machine import Machine
from entrypoint.stack import Stack
from entrypoint.tune import Scene, Setting, forget, is_training, place, prepare, spread, tune
from entrypoint.world import World

GLOO = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/usr/local/lib/python3.11/dist-packages")
CCL = GLOO._replace(torch="2.4.0+cpu", transformers="4.46.0", backend="ccl")
ALL = {
    "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "/usr/local/lib/libiomp5.so", "/usr/local/bin/mpiexec.hydra",
    "/usr/local/lib/libtcp-fi.so",
}  # fmt: skip
RANK = World("mpi", "", (2, 2), None, 1, 1, 0, 2, "node0", 29500)


def machine(cpus: int, cores: int, *, nodes: int = 1, quota: float | None = None, pinned: bool = False) -> Machine:
    each = cpus // nodes
    parts = tuple(frozenset(range(node * each, (node + 1) * each)) for node in range(nodes))
    return Machine(frozenset(range(cpus)), cpus, cores, nodes, parts, quota, pinned)


def values(world: World, host: Machine, stack: Stack = GLOO, *, job: bool = True) -> dict[str, str]:
    world = spread(world, host)
    scene = Scene(world, host, stack, is_training(world, job=job), lambda: "eth7", ALL.__contains__)
    return {setting.name: setting.value for setting in tune(scene)}


TWO_SOCKETS = machine(56, 56, nodes=2)
ALONE = World("alone", "")


@pytest.mark.parametrize(
    ("world", "host", "stack", "threads", "bound"),
    [
        (ALONE, machine(2, 2), GLOO, "2", True),
        (ALONE, TWO_SOCKETS, GLOO, "28", False),
        (ALONE, TWO_SOCKETS, CCL, "27", False),
        (ALONE, machine(2, 2), CCL, "2", True),
        (ALONE, machine(240, 32, nodes=2, quota=32), GLOO, "32", False),
        (ALONE._replace(local_size=4), machine(2, 2), GLOO, "1", False),
        (RANK, machine(8, 8), GLOO, "8", True),
        (RANK, machine(8, 1, quota=1.5), GLOO, "1", False),
        (RANK._replace(local_size=2, nodes=(1, 1)), machine(4, 4, pinned=True), GLOO, "4", True),
        (RANK._replace(local_size=2, nodes=(1, 1)), machine(4, 4), GLOO, "2", False),
    ],
)
def test_threads(world: World, host: Machine, stack: Stack, threads: str, bound: bool) -> None:
    found = values(world, host, stack)
    assert found["OMP_NUM_THREADS"] == threads
    assert ("KMP_AFFINITY" in found) == bound


def test_interfaces() -> None:
    assert values(ALONE, machine(2, 2))["GLOO_SOCKET_IFNAME"] == "lo"
    found = values(RANK, machine(2, 2))
    assert found["GLOO_SOCKET_IFNAME"] == found["FI_TCP_IFACE"] == "eth7"


def test_a_shell_gets_nothing_that_would_be_wrong_for_what_is_typed_in_it() -> None:
    found = values(ALONE, machine(2, 2), job=False)
    assert set(found) == {
        "OMP_NUM_THREADS", "KMP_BLOCKTIME", "KMP_AFFINITY", "LD_PRELOAD", "I_MPI_ROOT", "FI_PROVIDER_PATH",
    }  # fmt: skip
    assert found["LD_PRELOAD"].endswith("libtcmalloc.so.4:/usr/local/lib/libiomp5.so")


def test_ccl() -> None:
    found = values(ALONE, TWO_SOCKETS, CCL)
    assert (found["CCL_WORKER_COUNT"], found["CCL_ATL_TRANSPORT"]) == ("1", "ofi")
    assert "CCL_WORKER_COUNT" not in values(ALONE, TWO_SOCKETS)


def test_ranks_under_a_quota_are_not_bound_by_hydra() -> None:
    assert values(ALONE, machine(8, 2, quota=2), job=False)["I_MPI_PIN"] == "0"
    assert "I_MPI_PIN" not in values(ALONE, machine(8, 8), job=False)


def test_a_place_is_written_over_what_was_left() -> None:
    prepared = prepare({"RANK": "0", "WORLD_SIZE": "1"}, place(RANK), [])
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert [prepared.environ[name] for name in names] == ["1", "2", "0", "1", "node0", "29500"]
    assert place(RANK._replace(launcher="torchrun-worker")) == []


def test_what_the_user_set_stays_and_is_named() -> None:
    world = spread(ALONE, machine(2, 2))
    wanted = tune(Scene(world, machine(2, 2), GLOO, True, lambda: None, ALL.__contains__))
    prepared = prepare({"OMP_NUM_THREADS": "7"}, [], wanted)
    assert prepared.environ["OMP_NUM_THREADS"] == "7"
    assert prepared.kept == {"OMP_NUM_THREADS": "7"}
    assert "OMP_NUM_THREADS" not in prepared.added


def test_what_an_outer_entrypoint_set_is_forgotten_unless_changed() -> None:
    wanted = tune(Scene(spread(ALONE, machine(2, 2)), machine(2, 2), GLOO, True, lambda: None, ALL.__contains__))
    outer = prepare({"HOME": "/h"}, [], wanted).environ
    assert forget(outer) == {"HOME": "/h"}
    assert forget({**outer, "OMP_NUM_THREADS": "1"}) == {"HOME": "/h", "OMP_NUM_THREADS": "1"}


def test_what_was_set_over_something_comes_back() -> None:
    moved = [Setting("HF_HOME", "/tmp/h", "cannot be written")]
    outer = prepare({"HF_HOME": "/workspace", "LD_PRELOAD": ""}, moved, []).environ
    assert outer["HF_HOME"] == "/tmp/h"
    assert forget(outer) == {"HF_HOME": "/workspace", "LD_PRELOAD": ""}
    assert forget({**outer, "HF_HOME": "/mine"})["HF_HOME"] == "/mine"
