"""How long a start waits, in seconds, and for what: every time that is not torch's or ssh's own.

A program that runs beside torch has its own (hooks/ends/agents.py, programs/network.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.reading import number

# Replaces the three times below that other nodes may need.
VARIABLE = "MULTINODE_TIMEOUT"
# As long as torchrun itself waits: for the master of a rendezvous (torch/distributed/launcher/api.py, rdzv_timeout),
# and for the store of an elastic one (c10d_rendezvous_backend.py, read_timeout). Ranks that MPI or Slurm has started
# are on nodes that are up; their names may be half a minute late.
MASTER, NAME = 900, 60
# A name server that does not answer must not keep a job from starting; where the name of the master is waited for, it
# has longer than a resolver takes to ask two servers twice (resolv.conf(5), timeout and attempts).
LOOKUP, RESOLVER = 3.0, 30.0
# Workers that `launch` reaches by ssh are started before it.
HOSTS = 120
# Written into a manifest (VARIABLE) whose pods are not started after one another: others may fetch an image first.
PODS = 900
# Until a node sees what another one has written on a shared file system: nfs(5), acdirmax.
SEEN = 60.0
# In which rank 0 says why all end, and ends the others with it.
SAID = 5.0
# Until a job that is just ending has freed its directory for results.
DIRECTORY = 20.0
# How long ranks may take to end after a signal to `launch`; a container is killed 10 s after it.
RANKS_END = 8.0
# For doctor's probe, only against a hang: importing torch takes seconds, but minutes from a slow disk, with a small
# share of a core, or under emulation.
PROBE = 600


def read_timeout(environ: Mapping[str, str], default: int) -> int:
    """Return how many seconds other nodes are waited for; raise Refusal for a MULTINODE_TIMEOUT that is no number."""
    seconds = number(environ, VARIABLE, default)
    return default if seconds is None else seconds
