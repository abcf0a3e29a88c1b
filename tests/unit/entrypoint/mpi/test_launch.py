"""What launch makes of its arguments, without starting anything."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.mpi import launch
from entrypoint.mpi.hosts import Host
from entrypoint.mpi.keys import Keys
from entrypoint.mpi.launch import find_away, job_variables, read_request, share_cores
from entrypoint.mpi.wait import State
from entrypoint.settings import Setting, prepare
from entrypoint.world.model import PORTS
from tests.support.machines import Box, look_at


def test_the_words_of_launch_are_read() -> None:
    request = read_request(["--hosts", "a,b", "-n", "2", "--ppn=1", "--timeout", "5", "smoke", "--bf16"], {})
    assert request == ([Host("a", None), Host("b", None)], 2, 1, 5, ["smoke", "--bf16"])


@pytest.mark.parametrize(
    ("typed", "environ", "seconds"),
    [
        ([], {}, 120),
        ([], {"MULTINODE_TIMEOUT": "600"}, 600),
        (["--timeout", "5"], {"MULTINODE_TIMEOUT": "600"}, 5),
    ],
)
def test_how_long_it_waits_is_typed_or_in_a_variable(typed: list[str], environ: dict[str, str], seconds: int) -> None:
    assert read_request(["--hosts", "a", *typed, "qa"], environ).timeout == seconds


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["smoke"], "no hosts"),
        (["--hosts", "a"], "nothing to run"),
        (["--hosts"], "no value"),
        (["--hosts", "a", "-n", "x", "smoke"], "number"),
        (["--what", "smoke"], "no such option"),
        (["--hostfile", "/does/not/exist", "smoke"], "cannot be read"),
        (["--hosts", "localhost,b", "smoke"], "loopback"),
        (["--hosts", "fd77::1,fd77::2", "smoke"], "IPv6"),
    ],
)
def test_wrong_words_of_launch_are_refused(words: list[str], fact: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_request(words, {})
    assert fact in caught.value.fact and caught.value.code == 2


def test_a_loopback_among_hosts_is_named_as_it_was_typed() -> None:
    with pytest.raises(Refusal) as caught:
        read_request(["--hosts", "node0,127.0.0.1", "smoke"], {})
    assert caught.value.value == "127.0.0.1"


def test_all_ranks_get_the_master_and_the_size_of_their_world() -> None:
    assert job_variables({}, [Host("a", 2)], 2)["MASTER_ADDR"] == "127.0.0.1"
    found = job_variables({"MASTER_ADDR": "m", "MASTER_PORT": "1"}, [Host("a", 1), Host("b", 1)], 2)
    assert found == {"MASTER_ADDR": "m", "MASTER_PORT": "1", "MULTINODE_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("asked", "fits"), [("2", True), ("4", False), ("1", False), ("2:4", True), ("3:", False), ("", True)]
)
def test_a_world_of_another_size_than_was_insisted_on_is_refused(asked: str, fits: bool) -> None:
    environ = {"MASTER_ADDR": "m", "MULTINODE_WORLD_SIZE": asked}
    with contextlib.nullcontext() if fits else pytest.raises(Refusal, match="than MULTINODE_WORLD_SIZE: 2 of"):
        assert job_variables(environ, [Host("a", 1), Host("b", 1)], 2)["MULTINODE_WORLD_SIZE"] == "2"


def test_what_was_set_for_the_only_rank_of_an_mpirun_is_not_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "address_of", lambda host, peer: "192.0.2.5")
    for_one = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "MULTINODE_WORLD_SIZE": "1"}
    environ = prepare({}, [Setting(name, value, "") for name, value in for_one.items()], []).environ
    found = job_variables(environ, [Host("a", 1), Host("b", 1)], 2)
    assert (found["MASTER_ADDR"], found["MULTINODE_WORLD_SIZE"]) == ("192.0.2.5", "2")
    assert found["MASTER_PORT"] != "29500"


def test_every_launch_has_a_free_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def is_free(port: int) -> bool:
        tried.append(port)
        return len(tried) > 2

    monkeypatch.setattr("entrypoint.machine.network.is_free", is_free)
    port = int(job_variables({}, [Host("a", 2)], 2)["MASTER_PORT"])
    assert tried[-1] == port and port in PORTS and len(tried) == 3
    assert len({job_variables({}, [Host("a", 2)], 2)["MASTER_PORT"] for _ in range(20)}) > 1


def test_all_names_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look-up ends before all have begun."""
    hosts = [Host("here", 1), Host("node1", 1), Host("node2", 1)]
    together = threading.Barrier(len(hosts), timeout=10)

    def is_here(name: str) -> bool:
        together.wait()
        return name == "here"

    monkeypatch.setattr(launch, "is_here", is_here)
    assert find_away(hosts) == ["node1", "node2"]


@pytest.mark.parametrize(
    ("hosts", "ranks", "domain"),
    [
        ([Host("localhost", 2)], 2, "[0xffffffe,0xffffffe0000000]"),
        ([Host("localhost", 2)], 1, None),
        ([Host("localhost", 2), Host("192.0.2.1", 1)], 3, None),
        ([Host("192.0.2.1", 2)], 2, None),
    ],
)
def test_cores_are_shared_among_ranks(hosts: list[Host], ranks: int, domain: str | None) -> None:
    environ = {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1"}
    assert share_cores(environ, hosts, ranks, look_at(Box(2, 28, 2))).get("I_MPI_PIN_DOMAIN") == domain
    assert share_cores({"CCL_WORKER_COUNT": "1"}, hosts, ranks, look_at(Box(2, 28, 2))) == {}


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Let two hosts answer at once, and lend the keys that were mounted for them."""
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")
    monkeypatch.setattr(launch, "find_away", lambda hosts: [host.name for host in hosts])
    monkeypatch.setattr(launch, "find_keys", lambda environ: keys)
    monkeypatch.setattr(launch, "wait_for_hosts", lambda hosts, *_: dict.fromkeys(hosts, State("")))
    monkeypatch.setattr(launch, "find_hydra_interface", lambda host: None)
    monkeypatch.setattr(launch, "has_only_ipv6", lambda host: False)
    monkeypatch.setattr(launch, "read_stack", lambda text: Stack("2.13.0", "5.23.0", "3.11", "gloo", None, "/site"))
    return keys


WORDS = ["--hosts", "node0:2,node1:2", "smoke"]
GIVEN = {"MASTER_ADDR": "node0", "MASTER_PORT": "1234"}


@pytest.mark.parametrize("fault", [None, Refusal("hydra", "is", "gone")])
def test_the_list_of_hosts_is_gone_when_the_job_has_ended(
    workers: Keys, monkeypatch: pytest.MonkeyPatch, fault: Refusal | None
) -> None:
    seen: list[str] = []

    def run_ranks(argv: list[str], environ: dict[str, str]) -> int:
        seen.append(Path(argv[argv.index("-machinefile") + 1]).read_text())
        if fault:
            raise fault
        return 7

    monkeypatch.setattr(launch, "run_ranks", run_ranks)
    with pytest.raises(Refusal) if fault else contextlib.nullcontext():
        assert launch.launch(WORDS, GIVEN, "/opt/x", look_at(Box(1, 4))) == 7

    assert seen == ["node0:2\nnode1:2\n"]
    assert not list(Path(workers.directory).glob("hosts.*"))


def test_hydra_gets_what_the_user_has_set_and_not_what_is_right_for_this_node(
    workers: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It puts what it has over the values of a worker."""
    seen: dict[str, str] = {}

    def run_ranks(_: list[str], environ: dict[str, str]) -> int:
        seen.update(environ)
        return 0

    monkeypatch.setattr(launch, "run_ranks", run_ranks)
    defaults = {"OMP_NUM_THREADS": "2", "KMP_BLOCKTIME": "1"}
    rows = [Setting(name, value, "") for name, value in defaults.items()]
    environ = prepare({**GIVEN, "KMP_BLOCKTIME": "7"}, [Setting("LD_PRELOAD", "/lib/x", "")], rows).environ

    assert launch.launch(WORDS, environ, "/opt/x", look_at(Box(1, 4))) == 0

    names = (
        "OMP_NUM_THREADS",
        "KMP_BLOCKTIME",
        "LD_PRELOAD",
        "MULTINODE_SET",
        "MULTINODE_WORLD_SIZE",
        "MULTINODE_STACK",
    )
    assert {name: seen[name] for name in names if name in seen} == {
        "KMP_BLOCKTIME": "7",
        "MULTINODE_WORLD_SIZE": "4",
        "MULTINODE_STACK": "gloo, torch 2.13.0",
    }


def start_with_pins(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], here: str, worker: str | None, away: list[str]
) -> str | None:
    """Return the I_MPI_PIN that hydra gets; here, worker: those that the entrypoints of the nodes have set."""
    seen: dict[str, str] = {}
    monkeypatch.setattr(launch, "find_away", lambda _: away)
    monkeypatch.setattr(launch, "wait_for_hosts", lambda hosts, *_: dict.fromkeys(hosts, State("", "", worker)))
    monkeypatch.setattr(launch, "run_ranks", lambda _, environ: seen.update(environ) or 0)
    defaults = [Setting("I_MPI_PIN", here, "")] if here else []
    launch.launch(WORDS, prepare({**GIVEN, **environ}, [], defaults).environ, "/opt/x", look_at(Box(1, 4)))
    return seen.get("I_MPI_PIN")


ALL, OTHER = ["node0", "node1"], ["node1"]


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("environ", "here", "worker", "away", "given"),
    [
        ({}, "", "", ALL, None),
        ({}, "0", "", ALL, None),  # the launcher of an MPIJob has a quota, and no ranks
        ({}, "", "0", ALL, "0"),
        ({}, "0", "", OTHER, "0"),
        ({}, "", "0", OTHER, "0"),
        ({"I_MPI_PIN": "1"}, "0", "0", ALL, "1"),
        ({"I_MPI_PIN": "0"}, "", "", ALL, "0"),
        ({}, "", "1", ALL, None),
        ({}, "0", None, ALL, "0"),  # the workers run another sshd, which says nothing
        ({}, "", None, ALL, None),
    ],
)
def test_hydra_binds_no_ranks_where_a_node_with_ranks_has_a_quota(
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    here: str,
    worker: str | None,
    away: list[str],
    given: str | None,
) -> None:
    """It does what it is told here, on all nodes, before a rank has an entrypoint."""
    assert start_with_pins(monkeypatch, environ, here, worker, away) == given


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("pin", "given"), [("0", False), ("", True)])
def test_workers_of_oneccl_are_bound_only_where_ranks_are(
    monkeypatch: pytest.MonkeyPatch, pin: str, given: bool
) -> None:
    seen: dict[str, str] = {}
    monkeypatch.setattr(launch, "is_here", lambda name: name == "node0")
    monkeypatch.setattr(launch, "find_away", lambda _: ["node1"])
    monkeypatch.setattr(launch, "wait_for_hosts", lambda hosts, *_: dict.fromkeys(hosts, State("", "", pin)))
    monkeypatch.setattr(launch, "run_ranks", lambda _, environ: seen.update(environ) or 0)
    environ = {**GIVEN, "CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1"}
    launch.launch(WORDS, environ, "/opt/x", look_at(Box(2, 28, 2)))
    assert ("I_MPI_PIN_DOMAIN" in seen) == given


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("cores", "away", "said"),
    [
        (1, ALL, ""),  # the launcher of an MPIJob
        (1, OTHER, "multinode: 2 ranks on a node with 1 core(s): they share them\n"),
        (2, OTHER, ""),
    ],
)
def test_ranks_that_share_cores_are_judged_by_a_node_that_has_some(
    monkeypatch: pytest.MonkeyPatch, cores: int, away: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "find_away", lambda _: away)
    monkeypatch.setattr(launch, "run_ranks", lambda *_: 0)
    launch.launch(WORDS, GIVEN, "/opt/x", look_at(Box(1, cores)))
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("without", "given"), [((), False), (("node1",), True), (("node0", "node1"), True)])
def test_hydra_is_told_where_a_host_has_no_address_of_ipv4(
    workers: Keys, monkeypatch: pytest.MonkeyPatch, without: tuple[str, ...], given: bool
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(launch, "has_only_ipv6", lambda host: host in without)

    def run_ranks(argv: list[str], _: dict[str, str]) -> int:
        seen.extend(argv)
        return 0

    monkeypatch.setattr(launch, "run_ranks", run_ranks)
    assert launch.launch(WORDS, GIVEN, "/opt/x", look_at(Box(1, 4))) == 0
    assert ("-v6" in seen) == given


def test_who_has_no_private_key_starts_no_ranks(workers: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "find_keys", lambda environ: workers._replace(private=None))
    monkeypatch.setattr(launch, "run_ranks", lambda *_: pytest.fail("started"))

    with pytest.raises(Refusal, match="needs the private key, not only authorized_keys") as caught:
        launch.launch(WORDS, GIVEN, "/opt/x", look_at(Box(1, 4)))
    assert caught.value.code == 2
    assert "mount the file in /" in caught.value.remedy


def test_a_task_that_the_image_lacks_is_refused_before_hosts_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = {"torch": "2.13.0", "transformers": "5.23.0", "python": "3.11", "backend": "gloo", "examples": None}
    (tmp_path / "stack.json").write_text(json.dumps({**stack, "site": "/site"}))
    monkeypatch.setattr(launch, "find_away", lambda _: pytest.fail("looked for"))

    with pytest.raises(Refusal, match="built without the examples"):
        launch.launch(["--hosts", "node0,node1", "qa"], GIVEN, str(tmp_path), look_at(Box(1, 4)))


@pytest.mark.parametrize(("places", "said"), [(("a", "a"), True), (("a", "b"), False)])
def test_one_host_under_two_names_is_said_before_its_ranks_start(
    workers: Keys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], places: tuple[str, str],
    said: bool,
) -> None:  # fmt: skip
    states = {name: State("", place) for name, place in zip(("node0", "node1"), places, strict=True)}
    monkeypatch.setattr(launch, "wait_for_hosts", lambda *_: states)
    monkeypatch.setattr(launch, "run_ranks", lambda *_: 0)

    assert launch.launch(WORDS, GIVEN, "/opt/x", look_at(Box(1, 4))) == 0
    assert ("node0 and node1 are one host" in capsys.readouterr().err) == said
