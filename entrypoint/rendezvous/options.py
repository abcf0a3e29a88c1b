"""Options of torchrun in variables: those that it would answer with its usage or a traceback are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.numbers import number, whole
from entrypoint.world.model import TORCHRUN, read_master_port
from entrypoint.world.torchrun import AT_MASTER, C10D_PORT, RESTARTS, is_standalone, parse_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.world.model import World

CONF, FILTER, INTERVAL = "PET_RDZV_CONF", "PET_LOCAL_RANKS_FILTER", "PET_MONITOR_INTERVAL"
MASTER_PORT = "PET_MASTER_PORT"
# Its options with type=int that no other module reads, and those with check_env, which it passes to int()
# (torch/distributed/run.py and argparse_util.py).
WHOLE = (RESTARTS, "PET_SHUTDOWN_TIMEOUT", "PET_VIRTUAL_LOCAL_RANK", "PET_MODULE", "PET_NO_PYTHON", "PET_RUN_PATH")

# Settings that are a number besides each timeout, those that are yes or no, and words for that (rendezvous/api.py).
NUMBERS, SWITCHES = ("keep_alive_interval", "keep_alive_max_attempt"), ("is_host",)
YES_OR_NO = ("1", "true", "t", "yes", "y", "0", "false", "f", "no", "n")

# What torchrun takes for a backend; the second kind needs a Python module (elastic/rendezvous/registry.py).
BACKENDS, BY_ETCD = ("", "c10d", "static"), ("etcd", "etcd-v2")


def check_options(environ: Mapping[str, str]) -> None:
    """Raise Refusal for variables of torchrun with values that it would answer with its usage, or a traceback."""
    for name in WHOLE:
        number(environ, name)
    port = environ.get(MASTER_PORT, "").strip()
    if port and not read_master_port(port, AT_MASTER):
        raise Refusal("torchrun finds no master at port 0, and waits", repr(port), AT_MASTER)
    is_standalone(environ)
    read_conf(environ)
    ranks = environ.get(FILTER, "")
    if ranks and any(whole(each.strip()) is None for each in ranks.split(",")):
        raise Refusal(f"{FILTER} is not a list of ranks", repr(ranks), f"export {FILTER}=0,1, or unset it")
    text = environ.get(INTERVAL, "").strip()
    try:
        seconds = float(text or 1)
    except ValueError:
        seconds = 0
    if not seconds > 0:
        raise Refusal(f"{INTERVAL} is not a number of seconds", repr(text), f"export {INTERVAL}=0.1, or unset it")


def check_rendezvous_backend(environ: Mapping[str, str], *, etcd: bool) -> None:
    """Raise Refusal for a way to meet that torchrun does not have; etcd: whether there is a Python module of the name.

    An operator would start a pod again and again that ends in torchrun's traceback.
    """
    text = environ.get("PET_RDZV_BACKEND", "")
    if text in BACKENDS or (text in BY_ETCD and etcd):
        return
    fact = "torchrun has no such backend of a rendezvous"
    if text in BY_ETCD:
        fact = "this backend of a rendezvous needs the Python package python-etcd, which is not there"
    remedy = "c10d, in PET_RDZV_BACKEND, --rdzv_backend or rdzvBackend of an elasticPolicy; it needs no server"
    raise Refusal(fact, repr(text), remedy)


def read_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in `timeout=900,is_host=true`; raise Refusal for a text that torchrun cannot read."""
    text = environ.get(CONF, "").strip()
    rows = [part.partition("=") for part in text.split(",") if text]
    found = {name.strip(): value.strip() for name, _, value in rows}
    for name, value in found.items():
        if not name or not value or not fits(name, value):
            fact = f"{CONF} is not a list of settings, with a number of seconds for each timeout"
            fact += f" and yes or no for {name}" if name in SWITCHES else f" and for {name}" if name in NUMBERS else ""
            raise Refusal(fact, repr(text), f"export {CONF}=timeout=900, or unset it")
    return found


def fits(name: str, value: str) -> bool:
    """Return whether torchrun can read the value of a setting of a rendezvous."""
    if name in SWITCHES:
        return value.lower() in YES_OR_NO
    if name in NUMBERS:
        return whole(value) is not None
    return bool(whole(value)) or not name.endswith("timeout")


def warn_range(environ: Mapping[str, str], world: World) -> list[str]:
    """Return a note where a range of nodes is asked for at a master, at which nodes neither stay away nor come late."""
    text = environ.get("PET_NNODES", "")
    if world.launcher != TORCHRUN or ":" not in text or parse_nodes(text)[0] == world.nodes[0]:
        return []
    elastic = f"PET_RDZV_ENDPOINT=HOST:{C10D_PORT} in the place of a master"
    return [f"PET_NNODES={text} is no range at a master, which waits for all {world.nodes[1]} nodes; export {elastic}"]
