"""The place of a rank: in its job, as its agent has told it; and in groups of torch, which count what they exchange."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from multinode_image.hooks.job.one_job import DISTRIBUTED
from multinode_image.settings import TRAINING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROC = Path("/proc")
AGENT = "TORCHELASTIC_USE_AGENT_STORE"


class Job(NamedTuple):
    """The place of a rank in its job, and the store of torchrun's agent, as it was told at its start."""

    rank: int
    size: int
    host: str
    port: int
    attempt: str


def read_job(environ: Mapping[str, str]) -> Job | None:
    """Return the place of this rank as its agent told it, whatever a script has set since; None without an agent."""
    told = {**environ}
    with contextlib.suppress(OSError, ValueError):
        text = (PROC / str(int(environ.get(TRAINING, ""))) / "environ").read_bytes().decode(errors="replace")
        told |= {name: value for name, _, value in (line.partition("=") for line in text.split("\0"))}
    numbers = [told.get(name, "") for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")]
    if told.get(AGENT) != "True" or not all(number.isdecimal() for number in numbers) or not told.get("MASTER_ADDR"):
        return None
    rank, size, port = map(int, numbers)
    return Job(rank, size, told["MASTER_ADDR"], port, told.get("TORCHELASTIC_RESTART_COUNT", "0"))


def find_group(modules: Mapping[str, Any]) -> Any:
    """Return the default group of torch; None without one."""
    member = getattr(modules.get(DISTRIBUTED), "GroupMember", None)
    return getattr(member, "WORLD", None)


def count_exchanges(modules: Mapping[str, Any]) -> int | None:
    """Return how many collectives all groups have begun; None where one of them does not count, 0 without a group."""
    distributed = modules.get(DISTRIBUTED)
    if distributed is None or find_group(modules) is None:
        return None if uses_rpc(modules) else 0
    table = getattr(getattr(distributed, "_world", None), "pg_map", None) or getattr(distributed, "_pg_map", {})
    try:
        return sum(int(group._get_sequence_number_for_group()) for group in list(table))
    except Exception:  # of a backend without one
        return None


def uses_rpc(modules: Mapping[str, Any]) -> bool:
    """Return whether this process is in a job of torch.distributed.rpc, which has no group."""
    is_set = getattr(modules.get("torch.distributed.rpc.api"), "_is_current_rpc_agent_set", None)
    return is_set is not None and bool(is_set())


def find_store(distributed: Any, environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Return where the store of the default group is; None for one that is not reached by a network."""
    with contextlib.suppress(Exception):
        store = distributed._get_default_store()
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        if hasattr(store, "host"):
            return store.host, int(store.port)
        if getattr(distributed, "_default_pg_init_method", None) == "env://":  # older releases do not show it
            return environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    return None
