"""What a process asks of the master before it joins."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.launchers import ready
from entrypoint.launchers.ready import check_master, wait_for_name
from entrypoint.launchers.world import World


@pytest.fixture
def taken() -> int:
    return 29501


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr(ready, "is_free", lambda port: port != taken)
    monkeypatch.setattr(ready, "can_resolve", lambda name: name != "nobody")
    monkeypatch.setattr(ready, "is_here", lambda name: name == "here")


@pytest.mark.parametrize(
    ("world", "fact"),
    [
        (World("mpi", "", (2, 2), None, 1, 0, 0, 2, "here", 29501), "in use"),
        (World("torchrun", "", (2, 2), 0, 1, master="here", port=29501), "in use"),
        (World("mpi", "", (2, 2), None, 1, 1, 0, 2, "nobody", 29500), "did not resolve within 0 s"),
        (World("torchrun", "", (2, 2), None, 1, master="nobody", port=29500), "did not resolve within 0 s"),
    ],
)
def test_what_cannot_work_is_refused(world: World, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "SECONDS", 0)

    with pytest.raises(Refusal, match=fact) as caught:
        check_master(world, {})

    assert caught.value.code == 1


@pytest.mark.parametrize(
    "world",
    [
        World("mpi", "", (2, 2), None, 1, 1, 0, 2, "there", 29501),
        World("torchrun", "", (2, 2), 1, 1, master="there", port=29501),
        World("torchrun-worker", "", (2, 2), None, 1, 0, 0, 2, "nobody", 29501),
        World("mpi", "", (1, 1), None, 2, 0, 0, 2, "nobody", 29500),
    ],
)
def test_what_works_is_let_through(world: World) -> None:
    check_master(world, {})


def test_an_elastic_agent_only_says_that_the_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    check_master(World("torchrun", "", (1, 4), None, 1, master="here", port=29501), {})

    assert "29501 of the rendezvous is in use" in capsys.readouterr().err


def test_a_name_that_is_late_is_waited_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "PAUSE", 0)
    answers = iter([False, False, True])

    wait_for_name("node0", 60, lambda name: next(answers))

    assert capsys.readouterr().err == "multinode: waiting until node0 resolves\n"
