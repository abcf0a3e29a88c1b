"""Environments that no launcher leaves: every name that is read, with what launchers write, nothing, and garbage."""

from __future__ import annotations

from hypothesis import strategies as st

from entrypoint.launchers.signs import SIGNS
from tests.support.launchers import left_by, names

NAMES = sorted(
    {name for each in names() for name in left_by(each)}
    | {sign.name for sign in SIGNS}
    | {"MULTINODE_WORLD_SIZE", "MULTINODE_TIMEOUT", "JOB_COMPLETION_INDEX", "VC_MASTER_HOSTS", "PALS_APID"}
    | {"LOCAL_SIZE", "PET_RDZV_CONF", "PET_RDZV_ID", "PET_LOCAL_ADDR", "SLURM_HET_JOB_ID", "SLURM_CPUS_PER_TASK"}
)
TEXTS = (
    "", " ", "0", "1", "2", "8", "1:4", "4:1", "auto", "cpu", "host", "127.0.0.1", "[fd00::1]:29400", "a:b", "-1",
    "1.5", "9" * 30, "\u0663", "n[03-04]", "n[", "n]", "]", "0,1,x", "2(x2)", "2(x999999999)", "tcp://10.0.0.1:80",
    '{"cluster": {"worker": ["a", "b"]}}', '{"cluster": []}', "[" * 5000, "h1 4 h2 4", "/etc/mpi/x", "/etc/shadow",
    "\udcff", "a" * 5000, "\n", ",", "%", "fe80::1%eth0", "0x10", "1e3", "localhost", "::", "=;=", "$(id)",
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
ENVIRONMENTS = st.one_of(
    HOSTILE,
    st.builds(
        lambda left, more, gone: {key: value for key, value in {**left_by(*left), **more}.items() if key not in gone},
        st.lists(st.sampled_from(names()), max_size=2),
        st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8),
        st.sets(st.sampled_from(NAMES), max_size=3),
    ),
)
