"""Keep two jobs apart that meet at one port of one machine, as pods with hostNetwork do.

Node 1 of one job would train with node 0 of the other one, and both would say that all is well. What was typed is the
same on all nodes of a job: rank 0 leaves it in the store where they meet, and a node of another job ends there, before
it counts as one that has come.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from multinode_image.hooks.job.one_job import EXIT_USER, Fault, leave
from multinode_image.hooks.job.place import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WORDS, KEY = "MULTINODE_WORDS", "multinode/words"
SECONDS = timedelta(seconds=30)  # for node 0, which says it as soon as it is there


def watch_agents(module: Any) -> None:
    """Let agents of torchrun compare what they met for; module: torch.distributed.elastic.agent.server.api."""
    kind = module.SimpleElasticAgent
    meet = kind._rendezvous

    @functools.wraps(meet)
    def meet_and_compare(agent: Any, group: Any) -> Any:
        handler = group.spec.rdzv_handler
        come = handler.next_rendezvous

        def come_and_compare() -> Any:
            met = come()
            store, rank, size = (met.store, met.rank, met.world_size) if hasattr(met, "store") else met[:3]
            fault = compare(store, rank, size, os.environ)
            if fault is not None:  # at once: an agent that ends in order closes the rendezvous for all
                print(fault, file=sys.stderr, flush=True)
                os._exit(EXIT_USER)
            return met

        handler.next_rendezvous = come_and_compare
        try:
            return meet(agent, group)
        finally:
            handler.next_rendezvous = come

    kind._rendezvous = meet_and_compare


def watch_rendezvous(module: Any) -> None:
    """Let ranks that no agent has started compare what they met for; module: torch.distributed.distributed_c10d."""
    meet = module.rendezvous

    @functools.wraps(meet)
    def meet_and_compare(*words: Any, **options: Any) -> Iterator[Any]:
        for met in meet(*words, **options):
            store, rank, size = met
            fault = None if os.environ.get(AGENT) == "True" else compare(store, rank, size, os.environ)
            if fault is not None:
                leave(fault)
            yield met

    module.rendezvous = meet_and_compare


def compare(store: Any, rank: int, size: int, environ: Mapping[str, str]) -> Fault | None:
    """Return why this process does not belong to rank 0 of those that met here; None where it does, or nobody knows."""
    mine, theirs = environ.get(WORDS, ""), ""
    if not mine or size < 2:
        return None
    with contextlib.suppress(Exception):  # of a store that has gone, or a node with another release of ours
        if rank == 0:
            store.set(KEY, mine)
        else:
            store.wait([KEY], SECONDS)
            theirs = bytes(store.get(KEY)).decode()
    if not theirs or theirs.partition(" ")[0] == mine.partition(" ")[0]:
        return None
    return describe(mine.partition(" ")[2], theirs.partition(" ")[2], environ)


def describe(mine: str, theirs: str, environ: Mapping[str, str]) -> Fault:
    """Return why this node does not train with the one that it has met."""
    name = "PET_MASTER_PORT" if any(variable.startswith("PET_") for variable in environ) else "MASTER_PORT"
    same = " (a file of that name differs)" if mine == theirs else ""
    remedy = (
        f"another {name} for each job, the same on all its nodes; where this is one job, the same words on all nodes, "
        "or PET_RDZV_ID=NAME on all"
    )
    return Fault("rank 0 at this port was asked to train something else", f"{theirs} there, {mine} here{same}", remedy)
