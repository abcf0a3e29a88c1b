"""The wait for the master, and the checks where rank 0 is."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from multinode_image.errors import EXIT_USER, LATER, Refusal
from multinode_image.timeouts import MASTER, NAME
from multinode_image.world import master
from multinode_image.world.master import TYPED, check_master, wait_for_master, wait_for_name
from multinode_image.world.model import World
from tests.support.starts import NODE0, network

RANKS = World("mpi", "", (2, 2), None, 1, 0, 0, 2, "there", 29500)
AGENT = World("torchrun", "", (2, 2), 1, 1, master="there", port=29500)
FIRST, ELASTIC = AGENT._replace(node_rank=0), AGENT._replace(node_rank=None)
WORKER = RANKS._replace(launcher="torchrun-worker")
TAKEN, PRIVILEGED = 29501, 80


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    taken = {
        TAKEN: OSError(errno.EADDRINUSE, "Address already in use"),
        PRIVILEGED: PermissionError(13, "Permission denied"),
    }
    monkeypatch.setattr(master, "try_port", taken.get)
    monkeypatch.setattr(master, "can_resolve", lambda name: name != "nobody")
    monkeypatch.setattr(master, "PAUSE", 0)
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    with network(NODE0, taken):
        yield


@pytest.mark.parametrize(
    ("world", "environ", "seconds", "source"),
    [
        (RANKS, {"PET_MASTER_ADDR": "there", "PET_RDZV_ENDPOINT": "there:1"}, NAME, "MASTER_ADDR"),
        (AGENT, {"MASTER_ADDR": "nobody"}, MASTER, "MASTER_ADDR"),
        (AGENT, {"PET_MASTER_ADDR": "nobody", "MASTER_ADDR": "there"}, MASTER, "PET_MASTER_ADDR"),
        (AGENT, {"SM_HOSTS": "nobody,there"}, MASTER, TYPED),
        (
            ELASTIC,
            {"PET_RDZV_ENDPOINT": "nobody:29400", "PET_MASTER_ADDR": "there"},
            NAME,
            "PET_RDZV_ENDPOINT",
        ),
        (ELASTIC, {}, NAME, TYPED),  # --rdzv_endpoint was typed
        (AGENT, {"MASTER_ADDR": "nobody", "MULTINODE_TIMEOUT": "3"}, 3, "MASTER_ADDR"),
    ],
)
def test_a_master_is_waited_for_as_long_as_torchrun_does(
    world: World, environ: dict[str, str], seconds: int, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10**6, 50))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))

    with pytest.raises(Refusal, match=f"did not resolve within {seconds} s") as caught:
        wait_for_master(world._replace(master="nobody"), environ)

    assert caught.value.code == LATER >= 128
    assert caught.value.remedy == f"the name or address of the node of rank 0 in {source}"


@pytest.mark.parametrize("world", [WORKER, AGENT._replace(nodes=(1, 1)), AGENT._replace(master=None)])
def test_who_has_a_master_does_not_wait(world: World) -> None:
    assert not wait_for_master(world._replace(master=world.master and "nobody"), {})


def test_a_name_that_is_late_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([False, False, True])

    assert not wait_for_name("node0", "MASTER_ADDR", NAME, lambda name: True)
    assert wait_for_name("a\nmultinode: rank 0", "MASTER_ADDR", NAME, lambda name: next(answers))
    assert len(capsys.readouterr().err.splitlines()) == 1  # no row is forged


IN_USE = "the port where rank 0 has to listen is in use"


@pytest.mark.parametrize(
    ("world", "fact", "code"),
    [
        (RANKS._replace(master="here", port=TAKEN), IN_USE, LATER),
        (FIRST._replace(port=TAKEN), IN_USE, LATER),
        (RANKS._replace(guessed=("master",)), "rank 0 is not on the first node of the list", EXIT_USER),
        (RANKS._replace(launcher="slurm"), "MASTER_ADDR is not the node of rank 0", EXIT_USER),
        (RANKS._replace(rank=1, port=TAKEN), "", 0),
        (RANKS._replace(master="here", guessed=("master",)), "", 0),
        (RANKS._replace(launcher="slurm", master="here"), "", 0),
        (RANKS._replace(port=PRIVILEGED), "", 0),  # torch says so
        (RANKS, "", 0),  # a name behind NAT may be meant
        (ELASTIC._replace(master="here", port=TAKEN), "", 0),  # by another agent of this job
        (AGENT._replace(port=TAKEN), "", 0),
        (WORKER._replace(master="nobody", port=TAKEN), "", 0),
        (RANKS._replace(nodes=(1, 1), master="nobody"), "", 0),
    ],
)
def test_the_node_of_rank_0_is_where_the_others_expect_it(world: World, fact: str, code: int) -> None:
    if not fact:
        return check_master(world)
    with pytest.raises(Refusal) as caught:
        check_master(world)
    assert (caught.value.fact, caught.value.code) == (fact, code)


@pytest.mark.parametrize(("port", "other"), [(65534, 65535), (65535, 29500)])
def test_the_port_that_is_named_instead_of_one_in_use_is_one(
    port: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master, "try_port", lambda _: OSError(errno.EADDRINUSE, "Address already in use"))
    with pytest.raises(Refusal, match="in use") as caught:
        check_master(RANKS._replace(port=port))
    assert f"MASTER_PORT={other} on every node" in caught.value.remedy
