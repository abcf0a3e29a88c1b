"""Environments that no launcher leaves: every name that is read, with what launchers write, nothing, and garbage."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hypothesis import strategies as st

from tests.support.launchers import left_by, names, read_cases, read_machines

ENTRYPOINT = Path(__file__).parents[2] / "entrypoint"
NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Za-z0-9]+)+")
# The first would start a process; the others are no variables.
APART = {"MULTINODE_SUPERVISED", "MULTI_CPU", "KILLED_BY_SIGNAL"}


def names_in_sources() -> set[str]:
    """List what has the form of a variable's name among the strings of the entrypoint."""
    files = [path for path in ENTRYPOINT.rglob("*.py") if path.parent.name != "jobs"]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if NAME.fullmatch(text)} - APART


# Every variable that a launcher is recorded or documented to leave, and every one that the entrypoint knows.
NAMES = sorted(
    {name for each in names() for name in left_by(each)}
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
# All at once, and one kind of garbage in all.
HOSTILE = st.one_of(
    st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES)),
    VALUES.map(lambda value: dict.fromkeys(NAMES, value)),
    st.fixed_dictionaries({name: st.sampled_from(["0", "1", "2", "8"]) for name in NAMES}),
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
