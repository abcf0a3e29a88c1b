"""What a process asks of the master before it joins, and what torchrun is given to meet by."""

from __future__ import annotations

import signal

import pytest

from entrypoint.container.network import Route
from entrypoint.errors import LATER, USER, Refusal
from entrypoint.launchers.world import HERE, World
from entrypoint.meeting import ready
from entrypoint.meeting.ready import (
    TYPED,
    check_master,
    describe_meeting,
    describe_wait,
    find_here,
    name_run,
    stop,
    wait_for_master,
    wait_for_name,
    warn_choice,
)

RANKS = World("mpi", "", (2, 2), None, 1, 0, 0, 2, "there", 29500)
AGENT = World("torchrun", "", (2, 2), 1, 1, master="there", port=29500)
STATIC = World("torchrun", "", (2, 2), 0, 1, master="m", port=29500)
ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
TAKEN = 29501
# Of names: those of this node, and those of others.
ADDRESSES = {
    "10.77.0.1": (["10.77.0.1"], []),
    "pod": (["10.77.0.1"], ["10.77.0.2"]),
    "two-networks": (["10.77.0.1", "10.78.0.1"], []),
    "others": ([], ["10.77.0.2", "10.77.0.3"]),
    "here": (["10.77.0.1"], ["10.77.0.2"]),
}


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "is_free", lambda port: port != TAKEN)
    monkeypatch.setattr(ready, "can_resolve", lambda name: name != "nobody")
    monkeypatch.setattr(ready, "is_here", lambda name: name in ("here", "10.77.0.1"))
    monkeypatch.setattr(ready, "own_address", lambda name: None if name == "apart" else "10.77.0.1")
    monkeypatch.setattr(ready, "split_addresses", lambda name: ADDRESSES.get(name, ([], ["10.77.0.9"])))
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    monkeypatch.setattr(ready, "PAUSE", 0)


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


@pytest.mark.parametrize(
    "world",
    [
        RANKS._replace(rank=1, port=TAKEN),
        RANKS._replace(rank=1, guessed=("master",)),
        RANKS._replace(master="here", guessed=("master",)),
        RANKS._replace(launcher="slurm", master="here"),
        RANKS._replace(launcher="slurm", rank=1),
        RANKS,
        AGENT._replace(port=TAKEN),
        World("torchrun-worker", "", (2, 2), None, 1, 0, 0, 2, "nobody", TAKEN),
        World("mpi", "", (1, 1), None, 2, 0, 0, 2, "nobody", 29500),
        World("alone", ""),
    ],
)
def test_what_works_is_let_through(world: World) -> None:
    check_master(world)


def test_an_elastic_agent_only_says_that_the_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    check_master(World("torchrun", "", (1, 4), None, 1, master="here", port=TAKEN))

    assert f"{TAKEN} of the rendezvous is in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("master", "address", "bridges", "choices"),
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
    master: str, address: str, bridges: tuple[str, ...], choices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = [Route(name, b"", 0, 0) for name in ("eth1", "eth0", "docker0", "eth0")]
    monkeypatch.setattr(ready, "find_both_ends", lambda host: (address, "192.0.2.2"))
    monkeypatch.setattr(ready, "is_here", lambda host: host == "node0")
    monkeypatch.setattr(ready, "read_routes", lambda *_: routes)
    monkeypatch.setattr(ready, "find_address", lambda *_: "own")
    monkeypatch.setattr("os.path.isdir", lambda path: path.split("/")[-2] in bridges)
    assert ready.list_choices(master) == choices


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
    monkeypatch.setattr(ready, "list_choices", lambda name: ["eth0", "eth1"] if name == "here" else [])

    warn_choice(world, interface)

    assert ("eth0 was taken of eth0, eth1" in capsys.readouterr().err) == noted


@pytest.mark.parametrize(("node_rank", "exported"), [(0, True), (None, False)])
def test_a_variable_does_not_choose_the_network_of_an_elastic_agent(
    node_rank: int | None, exported: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ready, "list_choices", lambda name: ["eth0", "eth1"])

    warn_choice(AGENT._replace(node_rank=node_rank), "eth0")

    assert ("or export GLOO_SOCKET_IFNAME" in capsys.readouterr().err) == exported


@pytest.mark.parametrize(
    ("world", "environ", "seconds"),
    [
        (RANKS, {}, 60),
        (AGENT, {}, 900),
        (AGENT, {"PET_RDZV_ENDPOINT": "nobody:29400"}, 60),
        (AGENT, {"MULTINODE_TIMEOUT": "3"}, 3),
        (AGENT, {"MULTINODE_TIMEOUT": "0"}, 0),
    ],
)
def test_a_master_is_waited_for_as_long_as_torchrun_does(
    world: World, environ: dict[str, str], seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(ready, "wait_for_name", lambda name, source, seconds, resolves: waited.append(seconds))
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


ENDPOINT = {"PET_RDZV_ENDPOINT": "10.77.0.1:29400"}


@pytest.mark.parametrize(
    ("world", "environ", "found"),
    [
        (AGENT, {}, {}),
        (AGENT._replace(job="qa-7"), {}, {"PET_RDZV_ID": "qa-7"}),
        (AGENT._replace(job="mine"), {"PET_RDZV_ID": "mine"}, {}),
        (AGENT, ENDPOINT, {"PET_LOCAL_ADDR": "10.77.0.1"}),
        (AGENT, {**ENDPOINT, "PET_LOCAL_ADDR": "10.77.0.9"}, {}),
        (AGENT._replace(master="apart"), ENDPOINT, {}),
        (AGENT._replace(master="here"), ENDPOINT, {"PET_LOCAL_ADDR": "10.77.0.1"}),
        (
            AGENT._replace(master="10.77.0.1"),
            ENDPOINT,
            {"PET_LOCAL_ADDR": "10.77.0.1", "PET_RDZV_CONF": "is_host=true"},
        ),
        (
            AGENT._replace(master="10.77.0.1"),
            {**ENDPOINT, "PET_RDZV_CONF": "read_timeout=90"},
            {"PET_LOCAL_ADDR": "10.77.0.1", "PET_RDZV_CONF": "read_timeout=90,is_host=true"},
        ),
        (AGENT._replace(master="10.77.0.1", port=TAKEN), ENDPOINT, {"PET_LOCAL_ADDR": "10.77.0.1"}),
        (
            AGENT._replace(master="10.77.0.1"),
            {**ENDPOINT, "PET_RDZV_CONF": "is_host=0"},
            {"PET_LOCAL_ADDR": "10.77.0.1"},
        ),
        (
            AGENT._replace(master="10.77.0.1"),
            {**ENDPOINT, "PET_RDZV_BACKEND": "etcd-v2"},
            {"PET_LOCAL_ADDR": "10.77.0.1"},
        ),
    ],
)
def test_what_torchrun_is_given_to_meet_by(world: World, environ: dict[str, str], found: dict[str, str]) -> None:
    assert {each.name: each.value for each in describe_meeting(world, environ)} == found


@pytest.mark.parametrize(
    ("environ", "refused"),
    [
        ({"PET_RDZV_BACKEND": "c10d"}, True),
        ({"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": ""}, True),
        ({"PET_RDZV_BACKEND": "etcd-v2"}, True),
        ({"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "there:29400"}, False),
        ({"PET_RDZV_BACKEND": "static"}, False),
        ({"PET_RDZV_BACKEND": ""}, False),
        ({}, False),
    ],
)
def test_a_master_is_no_endpoint(environ: dict[str, str], refused: bool) -> None:
    if not refused:
        describe_meeting(AGENT, environ)
        return
    with pytest.raises(Refusal, match="meets at an endpoint, and does not read a master: PET_RDZV_BACKEND") as caught:
        describe_meeting(AGENT, environ)
    assert caught.value.code == USER
    assert "unset PET_RDZV_BACKEND, or export PET_RDZV_ENDPOINT=there:29400 " in caught.value.remedy


@pytest.mark.parametrize(
    ("world", "more", "refused"),
    [
        (AGENT._replace(master="pod"), {}, True),
        (AGENT._replace(master="pod", port=TAKEN), {}, True),
        (AGENT._replace(master="two-networks"), {}, False),
        (AGENT._replace(master="others"), {}, False),
        (AGENT._replace(master="here"), {}, False),  # torchrun itself takes a node of that name for the host
        (AGENT._replace(master="pod"), {"PET_RDZV_BACKEND": "etcd-v2"}, False),
        (AGENT._replace(master="pod"), {"PET_RDZV_CONF": "is_host=0"}, False),
        (AGENT._replace(master="pod"), {"PET_RDZV_ENDPOINT": ""}, False),  # rank 0 is host, whatever its name
    ],
)
def test_an_endpoint_of_several_nodes_is_refused(world: World, more: dict[str, str], refused: bool) -> None:
    environ = {**ENDPOINT, **more}
    if not refused:
        describe_meeting(world, environ)
        return
    with pytest.raises(Refusal, match="the endpoint is the name of several nodes") as caught:
        describe_meeting(world, environ)
    assert (caught.value.value, caught.value.code) == ("pod (10.77.0.1, 10.77.0.2)", USER)
    assert "headless service" in caught.value.remedy


def test_a_master_that_is_this_node_gets_its_address() -> None:
    assert find_here(AGENT._replace(master=HERE)).master == "10.77.0.1"
    assert find_here(AGENT) == AGENT


def test_the_name_of_a_run_has_no_separators() -> None:
    assert name_run("AWS_BATCH_JOB_ID=6fb5/c6\u0192") == "AWS-BATCH-JOB-ID-6fb5-c6-"


@pytest.mark.parametrize(
    ("world", "environ", "said"),
    [
        (STATIC, {}, "waiting for 2 nodes at m:29500, 900 s at most"),
        (STATIC, {"PET_RDZV_CONF": "timeout=20"}, "waiting for 2 nodes at m:29500, 20 s at most"),
        (
            STATIC._replace(node_rank=1),
            {},
            "waiting for the master at m:29500, and then for 2 nodes, 900 s at most for each",
        ),
        (STATIC._replace(nodes=(1, 4)), ELASTIC, "waiting for 1 to 4 nodes at m:29500, 600 s at most"),
        (
            STATIC,
            {**ELASTIC, "PET_RDZV_CONF": "join_timeout=9,is_host=1"},
            "waiting for 2 nodes at m:29500, 9 s at most",
        ),
        (STATIC, {**ELASTIC, "PET_RDZV_BACKEND": "etcd"}, ""),
        (STATIC._replace(nodes=(1, 1)), {}, ""),
        (STATIC._replace(launcher="mpi"), {}, ""),
    ],
)
def test_how_long_torchrun_waits_for_its_nodes(world: World, environ: dict[str, str], said: str) -> None:
    assert describe_wait(world, environ) == said
