"""What is checked on the node of rank 0 before it joins."""

from __future__ import annotations

import errno

import pytest

from entrypoint.errors import LATER, USER, Refusal
from entrypoint.machine.network import Route
from entrypoint.rendezvous import master
from entrypoint.rendezvous.master import check_master, list_choices, warn_choice
from entrypoint.world.model import World

RANKS = World("mpi", "", (2, 2), None, 1, 0, 0, 2, "there", 29500)
AGENT = World("torchrun", "", (2, 2), 1, 1, master="there", port=29500)
TAKEN, PRIVILEGED = 29501, 80
TRIED = {
    TAKEN: OSError(errno.EADDRINUSE, "Address already in use"),
    PRIVILEGED: PermissionError(13, "Permission denied"),
}


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "try_port", TRIED.get)
    monkeypatch.setattr(master, "is_here", lambda name: name == "here")
    monkeypatch.setattr("socket.gethostname", lambda: "here")


@pytest.mark.parametrize(
    ("world", "fact", "code"),
    [
        (RANKS._replace(port=TAKEN), "in use", LATER),
        (AGENT._replace(node_rank=0, port=TAKEN), "in use", LATER),
        (RANKS._replace(guessed=("master",)), "rank 0 is not on the first node of the list", USER),
        (RANKS._replace(launcher="slurm"), "MASTER_ADDR is not the node of rank 0", USER),
    ],
)
def test_what_cannot_work_is_refused(world: World, fact: str, code: int) -> None:
    with pytest.raises(Refusal, match=fact) as caught:
        check_master(world)
    assert caught.value.code == code


@pytest.mark.parametrize(("port", "other"), [(29500, 29501), (65534, 65535), (65535, 29500)])
def test_the_port_that_is_named_instead_of_one_in_use_is_one(
    port: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master, "try_port", lambda _: TRIED[TAKEN])

    with pytest.raises(Refusal) as caught:
        check_master(RANKS._replace(port=port))

    assert f"MASTER_PORT={other} on every node" in caught.value.remedy


@pytest.mark.parametrize(
    "world",
    [
        RANKS._replace(rank=1, port=TAKEN),
        RANKS._replace(rank=1, guessed=("master",)),
        RANKS._replace(master="here", guessed=("master",)),
        RANKS._replace(launcher="slurm", master="here"),
        RANKS._replace(launcher="slurm", rank=1),
        RANKS,
        RANKS._replace(port=PRIVILEGED),
        AGENT._replace(port=TAKEN),
        World("torchrun-worker", "", (2, 2), None, 1, 0, 0, 2, "nobody", TAKEN),
        World("mpi", "", (1, 1), None, 2, 0, 0, 2, "nobody", 29500),
        World("alone", ""),
    ],
)
def test_what_works_is_let_through(world: World) -> None:
    check_master(world)


@pytest.mark.parametrize(
    ("world", "noted"),
    [
        (RANKS, True),  # a name behind NAT may be meant
        (RANKS._replace(master="here"), False),
        (RANKS._replace(rank=1), False),
        (RANKS._replace(nodes=(1, 1)), False),
        (RANKS._replace(launcher="horovod"), False),
    ],
)
def test_a_master_that_is_not_here_is_noted_on_rank_0(
    world: World, noted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    check_master(world)

    assert ("MASTER_ADDR=there, and rank 0 is on here; " in capsys.readouterr().err) == noted


def test_an_elastic_agent_only_says_that_the_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    check_master(World("torchrun", "", (1, 4), None, 1, master="here", port=TAKEN))

    assert f"{TAKEN} of the rendezvous is in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "address", "bridges", "choices"),
    [
        ("node0", "127.0.1.1", (), ["docker0 (own)", "eth0 (own)", "eth1 (own)"]),
        ("node0", "192.0.2.2", ("docker0",), ["eth0 (own)", "eth1 (own)"]),  # the one that the others may not have
        ("node0", "192.0.2.2", ("docker0", "eth1"), []),
        ("192.0.2.2", "192.0.2.2", (), []),
        ("node1", "192.0.2.9", (), []),
        ("nobody", "", (), []),
    ],
)
def test_networks_among_which_the_own_name_does_not_choose(
    name: str, address: str, bridges: tuple[str, ...], choices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = [Route(each, b"", 0, 0) for each in ("eth1", "eth0", "docker0", "eth0")]
    monkeypatch.setattr(master, "find_both_ends", lambda host: (address, "192.0.2.2"))
    monkeypatch.setattr(master, "is_here", lambda host: host == "node0")
    monkeypatch.setattr(master, "read_routes", lambda *_: routes)
    monkeypatch.setattr(master, "find_address", lambda *_: "own")
    monkeypatch.setattr("os.path.isdir", lambda path: path.split("/")[-2] in bridges)
    assert list_choices(name) == choices


@pytest.mark.parametrize(
    ("world", "interface", "noted"),
    [
        (AGENT._replace(node_rank=0, master="here"), "eth0", True),
        (RANKS._replace(master="here"), "eth0", True),
        (RANKS._replace(master="here", local_rank=1), "eth0", False),
        (RANKS._replace(master="here"), None, False),
        (RANKS._replace(master="here", nodes=(1, 1)), "eth0", False),
        (RANKS._replace(master="here", launcher="torchrun-worker"), "eth0", False),
        (AGENT, "eth0", False),
    ],
)
def test_a_node_that_is_the_master_by_name_says_which_network_it_took(
    world: World,
    interface: str | None,
    noted: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(master, "list_choices", lambda name: ["eth0", "eth1"] if name == "here" else [])

    warn_choice(world, interface)

    assert ("eth0 was taken of eth0, eth1" in capsys.readouterr().err) == noted


@pytest.mark.parametrize(("node_rank", "exported"), [(0, True), (None, False)])
def test_a_variable_does_not_choose_the_network_of_an_elastic_agent(
    node_rank: int | None, exported: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(master, "list_choices", lambda name: ["eth0", "eth1"])

    warn_choice(AGENT._replace(node_rank=node_rank), "eth0")

    assert ("or export GLOO_SOCKET_IFNAME" in capsys.readouterr().err) == exported
