"""What launch makes of its arguments, and what hydra is started with."""

from __future__ import annotations

import threading

import pytest

from multinode_image import timeouts
from multinode_image.errors import Refusal
from multinode_image.mpi import launch as module
from multinode_image.mpi.launch import Job, job_variables, launch, make_bootstrap_variables, read_job, select_hosts
from tests.support.starts import make_facts

ONE, TWO = {"a": 2}, {"a": 1, "b": 1}


def variables(environ: dict[str, str], hosts: dict[str, int]) -> dict[str, str]:
    return job_variables(environ, Job(hosts, [], 1), "20007")


@pytest.mark.parametrize(
    ("words", "environ", "seconds"),
    [
        ([], {}, timeouts.HOSTS),
        ([], {"MULTINODE_TIMEOUT": "600"}, 600),
        (["--timeout", "5"], {"MULTINODE_TIMEOUT": "600"}, 5),
    ],
)
def test_the_words_of_launch_are_read(words: list[str], environ: dict[str, str], seconds: int) -> None:
    typed = ["--hosts", "a:1,b:1", "-n", "2", "--ppn=1", *words, "smoke", "--bf16"]
    assert read_job(typed, environ, make_facts({})) == (TWO, ["smoke", "--bf16"], seconds)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["smoke"], "--hosts"),
        (["--hosts", "a"], "no task"),
        (["--hosts"], "--hosts"),
        (["--hosts", "a", "-n", "x", "smoke"], "'x'"),
        (["--what", "smoke"], "--what"),
        (["--allow-run-as-root", "-x", "A", "smoke"], "--allow-run-as-root"),
        (["--hostfile", "/does/not/exist", "smoke"], "/does/not/exist"),
        (["--hosts", "node0,127.0.0.1", "smoke"], "127.0.0.1"),
        (["--hosts", "fd77::1,fd77::2", "smoke"], "fd77::1,fd77::2"),
    ],
)
def test_wrong_words_of_launch_are_refused(words: list[str], value: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_job(words, {}, make_facts({}))
    assert value in caught.value.value and caught.value.code == 2


def test_all_ranks_get_the_master_and_the_size_of_their_world() -> None:
    found = variables({}, ONE)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["MULTINODE_WORLD_SIZE"]) == ("127.0.0.1", "20007", "2")
    given = {"MASTER_ADDR": "m", "MASTER_PORT": "1"}
    assert variables(given, TWO) == {**given, "MULTINODE_WORLD_SIZE": "2", "I_MPI_PIN": "0"}
    assert "I_MPI_PIN" not in variables({**given, "I_MPI_PIN_DOMAIN": "socket"}, TWO)


def test_all_names_are_looked_up_at_once() -> None:
    """No look-up ends before all have begun."""
    hosts = ["here", "node1", "node2"]
    together = threading.Barrier(len(hosts), timeout=10)

    def is_away(name: str) -> bool:
        together.wait()
        return name != "here"

    assert select_hosts(hosts, is_away) == ["node1", "node2"]


def test_launch_waits_for_the_others_and_not_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[list[str]] = []

    def reach(away: list[str], *_: object) -> dict[str, str]:
        reached.append(away)
        return {}

    monkeypatch.setattr(module, "is_here", lambda name: name == "a")
    monkeypatch.setattr(module, "find_free_port", lambda *_: 20007)
    monkeypatch.setattr(module, "reach", reach)
    monkeypatch.setattr(module, "has_only_ipv6", lambda _: False)
    monkeypatch.setattr(module, "run_hydra", lambda *_: 0)
    assert launch(["--hosts", "a:1,b:1", "smoke"], {}, make_facts({})) == 0
    assert reached == [["b"]]


@pytest.mark.parametrize(
    ("environ", "interface", "given"),
    [
        ({}, "eth1", "eth1"),
        ({}, None, None),
        ({"I_MPI_HYDRA_IFACE": "ib0"}, "eth1", None),  # the user's stays
    ],
)
def test_hydra_reaches_the_others_by_our_ssh(environ: dict[str, str], interface: str | None, given: str | None) -> None:
    extra = {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"}  # the operator of MPIJob sets it
    found = make_bootstrap_variables({**environ, **extra}, "/c", "/opt/x", interface)
    assert found.get("I_MPI_HYDRA_IFACE") == given
    assert found["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == found["HYDRA_BOOTSTRAP_EXEC"] == "/opt/x/ssh"
    assert found["HYDRA_LAUNCHER_EXTRA_ARGS"] == "-F /c"
    assert found["I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"] == "-F /c -o ConnectionAttempts=10"


def test_a_task_that_the_image_lacks_is_refused_before_hosts_are_looked_for() -> None:
    with pytest.raises(Refusal, match="built without the examples"):
        launch(["--hosts", "node0,node1", "qa"], {}, make_facts({}))
