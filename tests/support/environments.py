"""Environments that no launcher leaves: every name that is read, with what launchers write, nothing, and garbage."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from tests.support.launchers import left_by, names, read_cases, read_machines
from tests.support.sources import read_source

ENTRYPOINT = Path(__file__).parents[2] / "multinode_image"
NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Za-z0-9]+)+")
# The first would start a process; the others are no variables.
APART = {"MULTINODE_SUPERVISED", "MULTI_CPU", "KILLED_BY_SIGNAL"}


def names_in_sources() -> set[str]:
    """List what has the form of a variable's name among the strings of the entrypoint."""
    files = [path for path in ENTRYPOINT.rglob("*.py") if path.parent.name != "jobs"]
    return {text for path in files for text in read_source(path).strings if NAME.fullmatch(text)} - APART


# Every variable that a launcher is recorded or documented to leave, and every one that the entrypoint knows.
NAMES = sorted(
    {name for launcher in names() for name in left_by(launcher)}
    | {name for case in read_cases() for name in case.environ}
    | {name for rows in read_machines().values() for row in rows for name in row["variables"]}
    | names_in_sources()
    | {"VC_MASTER_HOSTS"}
)
TEXTS = (
    "", " ", "0", "1", "2", "8", "1:4", "4:1", "auto", "cpu", "host", "127.0.0.1", "[fd00::1]:29400", "a:b", "-1",
    "1.5", "9" * 30, "\u0663", "n[03-04]", "n[", "n]", "]", "0,1,x", "2(x2)", "2(x999999999)", "tcp://10.0.0.1:80",
    '{"cluster": {"worker": ["a", "b"]}}', '{"cluster": []}', "[" * 5000, "h1 4 h2 4", "/etc/mpi/x", "/etc/shadow",
    "\udcff", "a" * 5000, ",".join(f"{low}-1048575" for low in range(500)), "https://user:hunter2@host:1/x",
    "\n", ",", "%", "fe80::1%eth0", "0x10", "1e3", "localhost", "::", "=;=", "$(id)",
)  # fmt: skip
# What a variable of the system can hold: anything but NUL, and bytes that are no text as lone surrogates.
TEXT = st.text(st.characters(blacklist_characters="\0"), max_size=8)
VALUES = st.one_of(st.sampled_from(TEXTS), TEXT)


def spread(values: Sequence[str], seed: int) -> dict[str, str]:
    """Give every name one of some values, by chance: that each draws its own takes hypothesis a second."""
    chance = random.Random(seed)
    return {name: chance.choice(values) for name in NAMES}


# All at once: one kind of garbage in all, several kinds, and numbers that contradict each other.
HOSTILE = st.builds(
    spread,
    st.lists(VALUES, min_size=1, max_size=1)
    | st.lists(VALUES, min_size=2, max_size=16)
    | st.just(["0", "1", "2", "8"]),
    st.integers(0, 1 << 32),
)
# What a launcher leaves, with one hostile variable: most are decided on, and few that hold more garbage.
CHANGED = st.builds(
    lambda left, name, value: {**left_by(left), name: value},
    st.sampled_from(names()), st.sampled_from(NAMES), VALUES,
)  # fmt: skip
ENVIRONMENTS = st.one_of(
    HOSTILE,
    st.builds(
        lambda left, more, gone: {key: value for key, value in {**left_by(*left), **more}.items() if key not in gone},
        st.lists(st.sampled_from(names()), max_size=2),
        st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8),
        st.sets(st.sampled_from(NAMES), max_size=3),
    ),
)
