"""Let a rank notice that another node is gone without a word: a cable, a power supply, a pod whose network went first.

Nobody closes the connections of such a node. A rank that sends to it gets an error when the kernel has repeated its
data for a quarter of an hour (tcp_retries2), and one that only waits gets it after half an hour, the limit of torch's
process groups, which `--ddp_timeout` does not change on a CPU (transformers/training_args.py). Neither gloo nor torch's
store asks the kernel for less, so it is done here, for each connection to another node, by a thread that looks for new
ones. A node that is only slow is not touched: its kernel answers however long its ranks compute.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

VARIABLE = "MULTINODE_PEER_TIMEOUT"
# Seconds. A switch that starts anew takes two minutes; after five, Kubernetes gives up a node and moves its pods.
DEFAULT = 300
DISTRIBUTED = "torch.distributed.distributed_c10d"
FILES = "/proc/self/fd"
PAUSE = 5.0
LOCAL = ("127.", "::1", "::ffff:127.")


def list_sockets(place: str = FILES) -> list[int]:
    """Return the numbers of this process's open sockets."""
    import contextlib

    found = []
    for name in os.listdir(place):
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(f"{place}/{name}").startswith("socket:"):
                found.append(int(name))
    return found


def limit(each: socket.socket, seconds: int) -> bool:
    """Let a connection end if its other side is silent for some seconds; return whether it is one to another node."""
    import socket as sockets

    if each.type != sockets.SOCK_STREAM or each.family not in (sockets.AF_INET, sockets.AF_INET6):
        return False
    if str(each.getpeername()[0]).startswith(LOCAL):
        return False
    tcp = sockets.IPPROTO_TCP
    # With the first, data that nobody confirms end it, and so do questions that nobody answers (tcp(7)).
    each.setsockopt(tcp, sockets.TCP_USER_TIMEOUT, seconds * 1000)
    each.setsockopt(tcp, sockets.TCP_KEEPIDLE, max(1, seconds // 5))
    each.setsockopt(tcp, sockets.TCP_KEEPINTVL, max(1, seconds // 10))
    each.setsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1)
    return True


def limit_all(numbers: list[int], seconds: int) -> int:
    """Do that for all connections to other nodes, and return how many there are."""
    import contextlib
    import socket

    count = 0
    for number in numbers:
        with contextlib.suppress(OSError):  # closed meanwhile, or it only listens
            copy = os.dup(number)
            try:
                count += limit(socket.socket(fileno=copy), seconds)
            finally:
                os.close(copy)
    return count


def watch(modules: Mapping[str, object], seconds: int) -> None:
    """Look for new connections for ever, as soon as torch may make some."""
    import time

    while True:
        time.sleep(PAUSE)
        if DISTRIBUTED in modules:
            limit_all(list_sockets(), seconds)


def start(environ: Mapping[str, str]) -> None:
    """Start the thread, which ends with the process."""
    import threading

    value = environ.get(VARIABLE, "")
    if value.isascii() and value.isdigit() and 0 < int(value) <= 1 << 20:
        threading.Thread(target=watch, args=(sys.modules, int(value)), name="multinode-peers", daemon=True).start()


if __name__ == "multinode.peers":  # as the image's .pth file runs it
    start(os.environ)
