"""Hosts on command lines and in files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.mpi.hosts import Host, default_hostfile, fill_hosts, place_ranks, read_hostfile, read_hosts

A, B = Host("a", None), Host("b", None)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a\nb\n", [A, B]),
        ("# all\n\na  # first\nb:2\n", [A, Host("b", 2)]),
        ("a.job.ns.svc slots=2\nb slots=1 max_slots=4\n", [Host("a.job.ns.svc", 2), Host("b", 1)]),
        ("192.0.2.1\n192.0.2.2:2\n", [Host("192.0.2.1", None), Host("192.0.2.2", 2)]),
        ("a\na\nb\n", [Host("a", 2), Host("b", 1)]),
        ("", []),
    ],
)
def test_a_hostfile_of_any_mpi_is_read(text: str, hosts: list[Host]) -> None:
    assert read_hostfile(text, "f") == hosts


@pytest.mark.parametrize("text", ["a b\n", "a:x", "a slots=two", "-oProxyCommand=x", "a;rm", "a\n\x00"])
def test_garbage_is_named_with_its_line(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_hostfile(text, "f")
    assert "f line" in caught.value.value


@pytest.mark.parametrize("text", ["[fd00::1]:2", "[fd00::1]", "fd00::1", "::1", "fe80::1%eth0"])
def test_an_address_of_ipv6_is_named_with_its_line(text: str) -> None:
    with pytest.raises(Refusal, match="takes no address of IPv6") as caught:
        read_hosts(f"{text},node1")
    assert caught.value.value == f"--hosts {text},node1"
    with pytest.raises(Refusal, match="takes no address of IPv6") as caught:
        read_hostfile(f"node0\n{text}\n", "f")
    assert caught.value.value == f"f line 2: {text}"


def test_a_line_without_an_end_is_not_shown_whole() -> None:
    with pytest.raises(Refusal) as caught:
        read_hostfile("\0" * 100_000, "f")
    assert len(caught.value.value) < 300


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


def test_hosts_are_read_from_the_command_line() -> None:
    assert read_hosts("a, b:2,") == [A, Host("b", 2)]


@pytest.mark.parametrize(
    ("hosts", "ranks", "each", "slots", "total"),
    [
        ([A, B], None, None, [3, 3], 6),
        ([A, B], 2, 1, [1, 1], 2),
        ([Host("a", 2), Host("b", 1)], None, None, [2, 1], 3),
        ([A, B], 10, None, [5, 5], 10),
        ([A, B], 1, 2, [2, 2], 1),
    ],
)
def test_ranks_are_placed_on_hosts_as_asked_or_evenly(
    hosts: list[Host], ranks: int | None, each: int | None, slots: list[int], total: int
) -> None:
    placed, count = place_ranks(hosts, ranks, each, 3)
    assert ([host.slots for host in placed], count) == (slots, total)


@pytest.mark.parametrize(("ranks", "filled"), [(4, {"a": 2, "b": 2}), (3, {"a": 2, "b": 1}), (2, {"a": 2})])
def test_one_host_after_the_other_is_filled(ranks: int, filled: dict[str, int]) -> None:
    assert {host.name: host.slots for host in fill_hosts([Host("a", 2), Host("b", 2)], ranks)} == filled


def test_more_ranks_than_the_hosts_take_are_refused() -> None:
    with pytest.raises(Refusal, match="more ranks"):
        place_ranks([A, B], 3, 1, 1)


@pytest.mark.parametrize(
    ("hosts", "ranks", "each"), [([Host("a", 4097)], None, None), ([A, B], 9000, None), ([A], 1, 9999)]
)
def test_more_ranks_than_a_node_has_are_refused(hosts: list[Host], ranks: int | None, each: int | None) -> None:
    with pytest.raises(Refusal, match="at most 4096 ranks"):
        place_ranks(hosts, ranks, each, 1)


def test_the_hostfile_of_the_operator_is_taken() -> None:
    assert default_hostfile({"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"}) == "/etc/mpi/hostfile"
    assert default_hostfile({}) is None


def test_the_hostfile_of_hydra_comes_before_that_of_open_mpi() -> None:
    """Both may be set in an image; `launch` starts hydra."""
    both = {"OMPI_MCA_orte_default_hostfile": "/open", "HYDRA_HOST_FILE": "/mpich"}
    assert default_hostfile(both) == "/mpich"
    assert default_hostfile({**both, "I_MPI_HYDRA_HOST_FILE": "/intel"}) == "/intel"


@pytest.mark.parametrize("text", ["-f", "a,-f", "-f:2", ".", "a, .b"])
def test_a_host_that_ssh_would_take_for_an_option_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="not the name of a host") as caught:
        read_hosts(text)
    assert caught.value.value == f"--hosts {text}"
