"""Hosts on command lines and in files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import Refusal
from multinode_image.mpi.hosts import Host, find_hosts, place_ranks, read_hostfile, read_hosts

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
    ("hosts", "ranks", "each", "placed"),
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
    ],
)
def test_ranks_are_placed_on_hosts_as_asked_or_evenly(
    hosts: list[Host], ranks: int | None, each: int | None, placed: dict[str, int]
) -> None:
    assert place_ranks(hosts, ranks, each, 3) == placed


@pytest.mark.parametrize(
    ("hosts", "ranks", "each", "fact"),
    [
        ([A, B], 3, 1, "more ranks"),
        ([Host("a", 4097)], None, None, "at most 4096 ranks"),
        ([A, B], 9000, None, "at most 4096 ranks"),
        ([A], 1, 9999, "at most 4096 ranks"),
    ],
)
def test_more_ranks_than_there_is_room_for_are_refused(
    hosts: list[Host], ranks: int | None, each: int | None, fact: str
) -> None:
    with pytest.raises(Refusal, match=fact):
        place_ranks(hosts, ranks, each, 1)


def test_the_hostfile_of_hydra_comes_before_that_of_open_mpi_and_what_is_typed_before_both(tmp_path: Path) -> None:
    """Both may be set in an image; `launch` starts hydra."""
    for name in ("intel", "mpich", "open"):
        (tmp_path / name).write_text(f"{name}\n")
    both = {"OMPI_MCA_orte_default_hostfile": f"{tmp_path}/open", "HYDRA_HOST_FILE": f"{tmp_path}/mpich"}
    every = {**both, "I_MPI_HYDRA_HOST_FILE": f"{tmp_path}/intel"}
    assert [find_hosts(None, None, each)[0].name for each in (both, every)] == ["mpich", "intel"]
    assert find_hosts(None, f"{tmp_path}/open", every)[0].name == "open"
    assert find_hosts("typed", None, every)[0].name == "typed"
