"""What torchrun has read of its options and variables, asked of itself, and what it is told then."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from multinode_image.reading import PORT
from multinode_image.world.torchrun import (
    ADDRESS,
    AUTO,
    BACKEND,
    CONF,
    ENDPOINT,
    ID,
    INDEX,
    MASTER,
    MASTER_PORT,
    NNODES,
    NODE,
    NPROC,
    RESTARTS,
    STANDALONE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multinode_image.hooks.ends.ranks import Ranks

TORCHRUN = "torch.distributed.run"  # a script has launch_agent from elsewhere (accelerate's notebook_launcher)
LAUNCHES = (TORCHRUN, "torch.distributed.launch")
# Where a standalone torchrun meets, and what it calls a job without a name (torch/distributed/run.py).
HERE, NAMELESS = "localhost:0", "none"
STATIC = "static"  # a rendezvous at a master
# What torchrun has a default for that says nothing.
DEFAULTS = {"master_addr": MASTER, "node_rank": NODE}


def find_torchrun() -> Any:
    """Return the module of torchrun, which may be what this Python runs (`-m`); None in any other program."""
    main = sys.modules.get("__main__")
    is_main = getattr(getattr(main, "__spec__", None), "name", "") == TORCHRUN
    return main if is_main else sys.modules.get(TORCHRUN)


def is_typed() -> bool:
    """Return whether this program is torchrun, and none that calls it."""
    name = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "")
    return os.path.basename(sys.argv[0]) == "torchrun" or name in LAUNCHES


def ask_parser() -> Any:
    """Return what torchrun's own parser reads, and None where nobody has named a master or a node; None for a script.

    The configuration has torchrun's default then, and a number of processors in the place of `auto`.
    """
    if not is_typed():
        return None
    parser = find_torchrun().get_args_parser()
    unset = {name: None for name, variable in DEFAULTS.items() if not os.environ.get(variable)}
    parser.set_defaults(**unset)
    return parser.parse_known_args(sys.argv[1:])[0]  # torch.distributed.launch has an option more


def describe(config: Any, typed: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what torchrun has read as the variables that it has for it; typed: what its parser says, if that is known.

    config: torch.distributed.launcher.api.LaunchConfig. What is the same without the variable is left out.
    """
    least, most = config.min_nodes, config.max_nodes
    counts = typed is None or str(typed.nproc_per_node).lower() not in AUTO
    values = {
        NNODES: str(most) if least == most else f"{least}:{most}",
        NPROC: str(config.nproc_per_node) if counts else "",
        RESTARTS: str(config.max_restarts or ""),
        ID: "" if config.run_id == NAMELESS else config.run_id,
        ADDRESS: getattr(config, "local_addr", None) or "",
    }
    if config.rdzv_endpoint == HERE:
        values.update({ID: "", STANDALONE: "1" if most > 1 else ""})
    elif config.rdzv_backend != STATIC:
        conf = ",".join(f"{name}={value}" for name, value in config.rdzv_configs.items() if name != "timeout")
        values.update({BACKEND: config.rdzv_backend, ENDPOINT: config.rdzv_endpoint, CONF: conf})
    else:
        values |= describe_master(config, typed, environ)
    return {name: value for name, value in values.items() if value or name == NPROC}


def describe_master(config: Any, typed: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Return where the nodes of a static rendezvous meet, and which this is; no master where nobody has named one.

    A pod of an Indexed Job has its number, also where it trains alone.
    """
    host, _, port = config.rdzv_endpoint.rpartition(":")
    index = environ.get(INDEX, "").strip() if config.max_nodes > 1 else ""
    is_numbered = typed is None or typed.node_rank is not None or not index
    rank = str(config.rdzv_configs.get("rank", 0)) if is_numbered else index
    is_named = config.max_nodes > 1 if typed is None else bool(typed.master_addr or typed.rdzv_endpoint)
    if not is_named:
        return {MASTER_PORT: "" if port == str(PORT) else port}
    return {MASTER: host, MASTER_PORT: port, NODE: rank}


def tell(config: Any, ranks: Ranks, node: str | None) -> None:
    """Change the configuration of an agent: how many ranks it starts, and what it is told of this node.

    node: the number of this node in a static rendezvous; None in any other.
    """
    config.nproc_per_node, options = ranks.local_size, ranks.options
    if ID in options:
        config.run_id = options[ID]
    if ADDRESS in options:
        config.local_addr = options[ADDRESS]
    conf = (pair.partition("=") for pair in options.get(CONF, "").split(","))
    config.rdzv_configs.update({name: value for name, equals, value in conf if equals})
    if node is not None:
        config.rdzv_configs["rank"] = int(node)
