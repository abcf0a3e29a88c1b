"""Variables that we set: over which values of the user, with which reason, and how a later entrypoint removes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from multinode_image import timeouts


class Setting(NamedTuple):
    """A variable, its value, and why it has it."""

    name: str
    value: str
    why: str


class Prepared(NamedTuple):
    """An environment, what was set in it, and what the user had set already."""

    environ: dict[str, str]
    added: dict[str, str]
    kept: dict[str, str]


def overlay(environ: Mapping[str, str], settings: Iterable[Setting]) -> dict[str, str]:
    """Return an environment with these variables over its own."""
    return {**environ, **{setting.name: setting.value for setting in settings}}


OURS = "MULTINODE_"
# The variables that users set, without what all of them begin with, as docs/reference.md has them.
VARIABLES = {
    "APART": "`1`: ranks may work apart; else one that trains by itself is ended",
    "BF16": "`emulate`: bf16 also where the processor has no unit for it, many times slower; no other value",
    "GRADIENTS": "what ranks send to each other: `float32`, `bf16`, `int8`, or `off` for what "
    "DistributedDataParallel does itself",
    "LOGS": "a directory for a file of each rank, such as `rank-0.log`; only the first rank of each node is shown, too",
    "METRICS": "a port on which the node of rank 0 answers Prometheus at `/metrics`; none by default",
    "OUTPUT": "where a script of your own writes its results; default: `/workspace/output`",
    "RESUME": "`no`: begin anew; a path: go on from that checkpoint. Else a Trainer goes on from its last one",
    "SSH_KEYS": "the directory of the ssh key; default: `/etc/multinode/ssh`",
    "SSH_PORT": "the port of `worker`, the same on every node; default: 2222",
    "TIMEOUT": f"seconds to wait for the name of rank 0 (default: {timeouts.MASTER} for a master, else "
    f"{timeouts.NAME}), or for the hosts of `launch` ({timeouts.HOSTS})",
    "WORLD_SIZE": "refuse any other number of ranks: `4`, `2:4`, or `2:` for at least 2; `1` trains alone",
}
NAMES = tuple(VARIABLES)
# What starts and ranks read alike: how many ranks there are to be, and whether they may work apart; and what says to
# the Pythons of a training that they are (hooks/at_start.py), in which a rank writes the number of its process.
SIZE, APART, TRAINING = "MULTINODE_WORLD_SIZE", "MULTINODE_APART", "MULTINODE_TRAINING"
# All is decided for a torchrun that the entrypoint has started itself; any other is asked (hooks/ends/ranks.py).
PLANNED = "MULTINODE_PLANNED"
# When this job has begun on this node: it outlives a rank that torchrun starts again.
BEGAN = "MULTINODE_BEGAN"
LOGS, METRICS = "MULTINODE_LOGS", "MULTINODE_METRICS"
# What computes in bf16 without a unit for it, and the only value that does.
BF16, EMULATE = "MULTINODE_BF16", "emulate"
MARK = "MULTINODE_SET"
BEFORE = "MULTINODE_BEFORE"


def may_work_apart(environ: Mapping[str, str]) -> bool:
    """Return whether the user has said that processes of a launcher may train a model each."""
    return environ.get(APART, "") not in ("", "0")


def forget(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what an entrypoint in a parent process set: that was right for its process only.

    That one left a list of names and values; a variable that has another value by now is the user's. A variable that
    it set over a value of the image or the user, or has left out, gets that value back.
    """
    marked = dict(read_list(environ, MARK))
    stale = {name for name, value in marked.items() if environ.get(name) == value}
    left_out = {name for name, _ in read_list(environ, BEFORE)} - marked.keys() - environ.keys()
    before = {name: value for name, value in read_list(environ, BEFORE) if name in stale | left_out}
    return {name: value for name, value in environ.items() if name not in {*stale, MARK, BEFORE}} | before


def warn_mistyped(environ: Mapping[str, str]) -> list[str]:
    """Return a note on each variable whose name is nearly that of one of ours: nothing reads it."""
    others = [name for name in environ if name.startswith(OURS) and name[len(OURS) :] not in NAMES]
    if not others:
        return []
    from difflib import get_close_matches  # few starts pay for it

    near = {name: get_close_matches(name[len(OURS) :], NAMES, 1, 0.75) for name in sorted(others)}
    return [f"nothing reads {name}: is {OURS}{names[0]} meant?" for name, names in near.items() if names]


def read_list(environ: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    """Return the pairs of `name=value;name=value`, in which a `;` of a value is written %3B."""
    rows = (row.partition("=") for row in environ.get(name, "").split(";"))
    return [(key, value.replace("%3B", ";").replace("%25", "%")) for key, equals, value in rows if equals]


def write_list(values: Mapping[str, str]) -> str:
    """Return `name=value;name=value`, as `read_list` reads it."""
    escaped = {name: value.replace("%", "%25").replace(";", "%3B") for name, value in values.items()}
    return ";".join(f"{name}={value}" for name, value in escaped.items())


def prepare(
    environ: Mapping[str, str], forced: list[Setting], defaults: list[Setting], removed: Collection[str] = ()
) -> Prepared:
    """Set what is forced over every value, and the other defaults where the user has set nothing.

    removed: variables that the process does not get; a later entrypoint gives them back (forget).
    """
    left_out = {name: environ[name] for name in removed if name in environ}
    environ = {name: value for name, value in environ.items() if name not in left_out}
    decided = {setting.name for setting in forced}
    defaults = [setting for setting in defaults if setting.name not in decided]
    kept = {setting.name: environ[setting.name] for setting in defaults if environ.get(setting.name)}
    added = {setting.name: setting.value for setting in (*forced, *defaults) if setting.name not in kept}
    before = {**left_out, **{name: environ[name] for name in added if environ.get(name)}}
    marks = {MARK: write_list(added), **({BEFORE: write_list(before)} if before else {})}
    return Prepared({**environ, **added, **marks}, added, kept)
