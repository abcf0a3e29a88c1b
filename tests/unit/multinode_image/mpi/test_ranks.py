"""Hosts as they are typed, and how ranks are started on them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image import timeouts
from multinode_image.errors import Refusal
from multinode_image.machine.image import LAUNCHED, name_stack
from multinode_image.mpi import launch as module
from multinode_image.mpi.hosts import Host, find_hosts, place_ranks, read_hostfile, read_hosts
from multinode_image.mpi.keys import strip_preloads
from multinode_image.mpi.launch import Access, Job, job_variables, launch, reach, read_job, select_hosts
from tests.support.clocks import Clock
from tests.support.starts import GLOO, make_facts

A, B = Host("a", None), Host("b", None)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a\nb\n", [A, B]),
        ("# all\n\na  # first\nb:2\n", [A, Host("b", 2)]),
        ("a.job.ns.svc slots=2 max-slots=3\nb slots=1 max_slots=4\n", [Host("a.job.ns.svc", 2), Host("b", 1)]),
        ("192.0.2.1\n192.0.2.2:2\n", [Host("192.0.2.1", None), Host("192.0.2.2", 2)]),
        ("a\na\nb\n", [Host("a", 2), Host("b", 1)]),
        ("", []),
    ],
)
def test_a_hostfile_of_any_mpi_is_read(text: str, hosts: list[Host]) -> None:
    assert read_hostfile(text, "f") == hosts


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("a b", "not understood"),
        ("a slots=two", "not understood"),
        ("a:x", "not the name"),
        ("-oProxyCommand=x", "not the name"),  # ssh would take it for an option
        (".", "not the name"),
        ("a;rm", "not the name"),
        ("\x00", "not the name"),
        ("node0:2:mlx5_0", "not the name"),  # MVAPICH
        ("[fd00::1]:2", "not the name"),
        ("fd00::1", "not the name"),
        ("::1", "not the name"),
        ("fe80::1%eth0", "not the name"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_the_cause(line: str, fact: str) -> None:
    with pytest.raises(Refusal, match=fact) as caught:
        read_hostfile(f"node0\n{line}\n", "f")
    assert caught.value.value == f"f line 2: {line}" and caught.value.code == 2
    if " " not in line:
        with pytest.raises(Refusal, match=fact):
            read_hosts(f"node1,{line}")


@given(st.text())
def test_any_hostfile_is_read_or_refused(text: str) -> None:
    try:
        hosts = [*read_hostfile(text, "f"), *read_hosts(text)]
    except Refusal:
        return
    assert all(host.name and not host.name.startswith("-") for host in hosts)


NAMED = st.lists(
    st.tuples(st.from_regex(r"\A[a-z][a-z0-9.-]{0,20}\Z"), st.integers(1, 9999)),
    min_size=1,
    unique_by=lambda row: row[0],
)


@given(NAMED, st.sampled_from(["{}:{}", "{} slots={}", "{}  slots={}  max_slots=9999 # the {}th"]))
def test_every_dialect_says_the_same(rows: list[tuple[str, int]], form: str) -> None:
    text = "\n".join(form.replace("{}th", "last").format(name, slots) for name, slots in rows)

    assert read_hostfile(text, "f") == [Host(name, slots) for name, slots in rows]


TWICE = [Host("a", 2), Host("b", 2)]


@pytest.mark.parametrize(
    ("hosts", "ranks", "on_each", "placed"),
    [
        ([A, B], None, None, {"a": 3, "b": 3}),
        ([A, B], 2, 1, {"a": 1, "b": 1}),
        ([Host("a", 2), Host("b", 1)], None, None, {"a": 2, "b": 1}),
        ([A, Host("b", 1)], 10, None, {"a": 5, "b": 5}),
        ([Host("a", 1), Host("b", 1)], 3, None, {"a": 2, "b": 1}),  # more than slots, and no even number
        ([A, B], 1, 2, {"a": 1}),
        (TWICE, 4, None, {"a": 2, "b": 2}),
        (TWICE, 3, None, {"a": 2, "b": 1}),
        (TWICE, 2, None, {"a": 2}),
        ([Host("a", 4096)], None, None, {"a": 4096}),
    ],
)
def test_ranks_are_placed_on_hosts_as_asked_or_evenly(
    hosts: list[Host], ranks: int | None, on_each: int | None, placed: dict[str, int]
) -> None:
    assert place_ranks(hosts, ranks, on_each, 3) == placed


@pytest.mark.parametrize(
    ("hosts", "ranks", "on_each", "fact"),
    [
        ([A, B], 3, 1, "more ranks"),
        ([Host("a", 4097)], None, None, "at most 4096 ranks"),
        ([A, B], 9000, None, "at most 4096 ranks"),
        ([A], 1, 9999, "at most 4096 ranks"),
    ],
)
def test_more_ranks_than_there_is_room_for_are_refused(
    hosts: list[Host], ranks: int | None, on_each: int | None, fact: str
) -> None:
    with pytest.raises(Refusal, match=fact):
        place_ranks(hosts, ranks, on_each, 1)


def test_the_hostfile_of_hydra_comes_before_that_of_open_mpi_and_what_is_typed_before_both(tmp_path: Path) -> None:
    """Both may be set in an image; `launch` starts hydra."""
    for name in ("intel", "mpich", "open"):
        (tmp_path / name).write_text(f"{name}\n")
    both = {"OMPI_MCA_orte_default_hostfile": f"{tmp_path}/open", "HYDRA_HOST_FILE": f"{tmp_path}/mpich"}
    every = {**both, "I_MPI_HYDRA_HOST_FILE": f"{tmp_path}/intel"}
    assert [find_hosts(None, None, variables)[0].name for variables in (both, every)] == ["mpich", "intel"]
    assert find_hosts(None, f"{tmp_path}/open", every)[0].name == "open"
    assert find_hosts("typed", None, every)[0].name == "typed"


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
    typed = ["--hosts", "a:2,b:2,c:2", "-n", "2", "--ppn=1", *words, "smoke", "--bf16"]
    assert read_job(typed, environ, make_facts({})) == (TWO, ["smoke", "--bf16"], seconds)


@pytest.mark.parametrize("line", ["--hosts a,b -n 2 --ppn 1", "-hosts a,b -np 2 -ppn 1", "--hostfile F", "-f F"])
def test_words_that_mpirun_takes_are_those_of_launch(tmp_path: Path, line: str) -> None:
    (tmp_path / "hosts").write_text("a:1\nb:1\n")
    words = line.replace("F", f"{tmp_path}/hosts").split()
    assert read_job([*words, "smoke"], {}, make_facts({})).hosts == TWO


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["smoke"], "--hosts"),
        (["--hosts", "a"], "no task"),
        (["--hosts"], "--hosts"),
        (["--hosts", "a", "-n", "x", "smoke"], "'x'"),
        (["--hosts", "a", "--ppn", "0", "smoke"], "'0'"),
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
    of_ranks = variables({}, ONE)
    assert (of_ranks["MASTER_ADDR"], of_ranks["MASTER_PORT"], of_ranks["MULTINODE_WORLD_SIZE"]) == (
        "127.0.0.1",
        "20007",
        "2",
    )
    given = {"MASTER_ADDR": "m", "MASTER_PORT": "1"}
    assert variables(given, TWO) == {**given, "MULTINODE_WORLD_SIZE": "2", "I_MPI_PIN": "0"}
    for pinned in ("I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST"):
        assert "I_MPI_PIN" not in variables({**given, pinned: "socket"}, TWO)
    with pytest.raises(Refusal):
        variables({"MULTINODE_WORLD_SIZE": "3"}, TWO)


def test_all_names_are_looked_up_at_once() -> None:
    """No look-up ends before all have begun."""
    hosts = ["here", "node1", "node2"]
    together = threading.Barrier(len(hosts), timeout=10)

    def is_away(name: str) -> bool:
        together.wait()
        return name != "here"

    assert select_hosts(hosts, is_away) == ["node1", "node2"]


@pytest.mark.parametrize(
    ("hosts", "port", "wide", "options", "more"),
    [
        ("a:2,b:1", 20007, False, "", {"AWAY": "b", "MASTER_ADDR": "a"}),
        ("a:2,b:1", None, True, "-v6 ", {"AWAY": "b", "MASTER_ADDR": "a"}),
        ("a:3", 20007, True, "", {"MASTER_ADDR": "127.0.0.1"}),
    ],
)
def test_launch_waits_for_the_others_and_not_for_itself(
    monkeypatch: pytest.MonkeyPatch, hosts: str, port: int | None, wide: bool, options: str, more: dict[str, str]
) -> None:
    ran = list[Any]()

    def run(argv: list[str], environ: Mapping[str, str]) -> int:
        machines = Path(argv.pop(argv.index("-machinefile") + 1)).read_text()
        ran.append((" ".join(argv), machines, dict(environ)))
        return 7

    monkeypatch.setattr(module, "is_here", lambda name: name == "a")
    monkeypatch.setattr(module, "find_free_port", lambda ports, first: port if first < len(ports) else None)
    monkeypatch.setattr(module, "reach", lambda away, *_: {"AWAY": " ".join(away)})
    monkeypatch.setattr(module, "has_only_ipv6", lambda _: wide)
    monkeypatch.setattr(module, "run_hydra", run)
    environ = {"MULTINODE_SET": "OMP_NUM_THREADS=4", "OMP_NUM_THREADS": "4", "A": "1"}

    assert launch(["--hosts", hosts, "smoke", "--bf16"], environ, make_facts({})) == 7
    assert ran == [(
        f"mpiexec.hydra {options}-disable-auto-cleanup -machinefile -n 3 python3 -I -S /opt/multinode smoke --bf16",
        hosts.replace(",", "\n") + "\n",
        {"A": "1", "I_MPI_PIN": "0", "MASTER_PORT": str(port or 29500), "MULTINODE_WORLD_SIZE": "3", **more},
    )]  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "address", "interface", "given"),
    [
        ({}, "10.0.0.2", "eth1", {"I_MPI_HYDRA_IFACE": "eth1", "HYDRA_IFACE": "eth1"}),
        ({}, "10.0.0.2", None, {}),
        ({}, None, "eth1", {}),
        ({}, "fd00::2", "eth1", {}),
        ({"I_MPI_HYDRA_IFACE": "ib0"}, "10.0.0.2", "eth1", {"HYDRA_IFACE": "eth1"}),  # the user's stays
    ],
)
def test_hydra_reaches_the_others_by_our_ssh(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], address: str | None, interface: str | None,
    given: dict[str, str],
) -> None:  # fmt: skip
    extra = {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"}  # the operator of MPIJob sets it
    waited = list[Any]()
    monkeypatch.setattr(module, "find_keys", lambda *given: given)
    monkeypatch.setattr(module, "write_client", lambda keys, port: f"/{port}" if keys == (environ, "/d") else "")
    monkeypatch.setattr(module, "wait_for_hosts", lambda *given: waited.append(given))
    monkeypatch.setattr(module, "find_local_address", lambda host: {"b": address}[host])
    monkeypatch.setattr(module, "name_interface", lambda _: interface)
    monkeypatch.setattr(module, "time", Clock(now=100.0))
    environ |= {**extra, "LD_PRELOAD": "/a/libtcmalloc.so.4"}

    variables = reach(["b", "c"], environ, make_facts({}), 7, "/d")

    assert waited == [(["b", "c"], Access("/2222", 2222, strip_preloads(environ), 107.0), 7)]
    assert variables == {
        LAUNCHED: name_stack(GLOO), "I_MPI_HYDRA_BOOTSTRAP": "ssh", "HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/opt/multinode/ssh", "HYDRA_BOOTSTRAP_EXEC": "/opt/multinode/ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-F /2222 -o ConnectionAttempts=10",
        "HYDRA_LAUNCHER_EXTRA_ARGS": "-F /2222", **given,
    }  # fmt: skip


def test_a_task_that_the_image_lacks_is_refused_before_hosts_are_looked_for() -> None:
    with pytest.raises(Refusal, match="built without the examples"):
        launch(["--hosts", "node0,node1", "qa"], {}, make_facts({}))
