"""The wait for the name of the master."""

from __future__ import annotations

import signal

import pytest

from entrypoint.errors import LATER, Refusal
from entrypoint.rendezvous import wait
from entrypoint.rendezvous.wait import TYPED, stop, wait_for_master, wait_for_name
from entrypoint.world.model import World

RANKS = World("mpi", "", (2, 2), None, 1, 0, 0, 2, "there", 29500)
AGENT = World("torchrun", "", (2, 2), 1, 1, master="there", port=29500)
ELASTIC = AGENT._replace(node_rank=None)


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "can_resolve", lambda name: name != "nobody")
    monkeypatch.setattr(wait, "PAUSE", 0)


@pytest.mark.parametrize(
    ("world", "environ", "seconds"),
    [
        (RANKS, {}, 60),
        (AGENT, {}, 900),
        (ELASTIC, {"PET_RDZV_ENDPOINT": "nobody:29400"}, 60),
        (ELASTIC, {}, 60),  # --rdzv_endpoint was typed
        (AGENT, {"MULTINODE_TIMEOUT": "3"}, 3),
        (AGENT, {"MULTINODE_TIMEOUT": "0"}, 0),
    ],
)
def test_a_master_is_waited_for_as_long_as_torchrun_does(
    world: World, environ: dict[str, str], seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(wait, "wait_for_name", lambda name, source, seconds, resolves: waited.append(seconds))
    wait_for_master(world._replace(master="nobody"), environ)
    assert waited == [seconds]


@pytest.mark.parametrize(
    "world", [AGENT._replace(launcher="torchrun-worker"), AGENT._replace(nodes=(1, 1)), AGENT._replace(master=None)]
)
def test_who_has_a_master_does_not_wait(world: World) -> None:
    assert not wait_for_master(world, {})


def test_a_name_that_is_there_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert not wait_for_name("node0", "MASTER_ADDR", 60, lambda name: True)
    assert capsys.readouterr().err == ""


def test_a_name_that_is_late_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([False, False, True])

    assert wait_for_name("node0", "MASTER_ADDR", 60, lambda name: next(answers))

    assert capsys.readouterr().err == "multinode: waiting until node0 resolves, 60 s at most\n"


def test_a_name_forges_no_row_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([False, True])

    wait_for_name("a\nmultinode: rank 0", "MASTER_ADDR", 60, lambda name: next(answers))

    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_name_that_does_not_come_is_refused_as_what_time_mends() -> None:
    with pytest.raises(Refusal, match="did not resolve within 0 s") as caught:
        wait_for_name("nobody", "MASTER_ADDR", 0, lambda name: False)
    assert caught.value.code == LATER >= 128


@pytest.mark.parametrize(
    ("world", "environ", "source"),
    [
        (RANKS, {"PET_MASTER_ADDR": "there", "PET_RDZV_ENDPOINT": "there:1"}, "MASTER_ADDR"),
        (AGENT, {"PET_RDZV_ENDPOINT": "nobody:29400", "PET_MASTER_ADDR": "there"}, "PET_RDZV_ENDPOINT"),
        (AGENT, {"PET_MASTER_ADDR": "nobody", "MASTER_ADDR": "there"}, "PET_MASTER_ADDR"),
        (AGENT, {"MASTER_ADDR": "nobody"}, "MASTER_ADDR"),
        (AGENT, {"SM_HOSTS": "nobody,there"}, TYPED),
    ],
)
def test_the_remedy_names_where_the_master_is_from(world: World, environ: dict[str, str], source: str) -> None:
    with pytest.raises(Refusal) as caught:
        wait_for_master(world._replace(master="nobody"), {**environ, "MULTINODE_TIMEOUT": "0"})
    assert caught.value.remedy == f"the name or address of the node of rank 0 in {source}"


def test_a_signal_ends_the_wait() -> None:
    """The first process of a container gets no signal that it has no handler for."""
    with pytest.raises(SystemExit) as caught:
        stop(signal.SIGTERM, None)
    assert caught.value.code == 143


@pytest.mark.usefixtures("foreground")
def test_the_handler_is_there_while_a_name_is_waited_for() -> None:
    seen = []
    answers = iter([False, True])

    def resolves(name: str) -> bool:
        seen.append(signal.getsignal(signal.SIGTERM))
        return next(answers)

    wait_for_name("node0", "MASTER_ADDR", 60, resolves)
    assert seen == [signal.SIG_DFL, stop]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    with pytest.raises(Refusal):
        wait_for_name("nobody", "MASTER_ADDR", 0, lambda name: False)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
