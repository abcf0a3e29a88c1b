"""Let a rank notice that another node is gone without closing its connections, as when a cable or the power is cut.

A rank that sends to such a node gets an error when the kernel has repeated its data for a quarter of an hour
(tcp_retries2), and one that only waits gets it after half an hour, the limit of torch's process groups, which
`--ddp_timeout` does not change on a CPU (transformers/training_args.py). Neither gloo nor torch's store asks the kernel
for a shorter time, so it is done here, for each connection to another node, by a thread that looks for new ones. A node
that is only slow is not touched: its kernel answers however long its ranks compute.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ctypes import CDLL
    from threading import Event, Thread

VARIABLE = "MULTINODE_PEER_TIMEOUT"
DISTRIBUTED = "torch.distributed.distributed_c10d"
FILES = "/proc/self/fd"
PAUSE = 5.0
MOST = 1 << 20  # seconds: twelve days; the kernel takes milliseconds up to 2**31
LONGEST = 32767  # seconds before and between the kernel's questions (MAX_TCP_KEEPIDLE of Linux, include/net/tcp.h)
ADDRESS = 128  # bytes of any address (sockaddr_storage)
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


def peer(number: int, libc: CDLL) -> str:
    """Return the address at the other end of a socket, empty for one that leads to no address of a network.

    The C library is asked, because a socket of Python's would close the number, or make it non-blocking.
    """
    import ctypes
    import socket

    found, length = ctypes.create_string_buffer(ADDRESS), ctypes.c_uint32(ADDRESS)
    if libc.getpeername(number, found, ctypes.byref(length)) < 0:  # closed meanwhile, or it only listens
        return ""
    family, raw = int.from_bytes(found.raw[:2], sys.byteorder), found.raw
    if family == socket.AF_INET:
        return socket.inet_ntop(family, raw[4:8])
    return socket.inet_ntop(family, raw[8:24]) if family == socket.AF_INET6 else ""


def list_options(seconds: int) -> list[tuple[int, int, int]]:
    """Return the options of a connection as level, option, value; a socket of another protocol refuses the first."""
    import socket

    tcp = socket.IPPROTO_TCP
    return [
        # This one ends a connection when nobody confirms its data or answers its keepalive probes (tcp(7)).
        (tcp, socket.TCP_USER_TIMEOUT, seconds * 1000),
        (tcp, socket.TCP_KEEPIDLE, min(LONGEST, max(1, seconds // 5))),
        (tcp, socket.TCP_KEEPINTVL, min(LONGEST, max(1, seconds // 10))),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]


def limit_all(numbers: list[int], seconds: int, libc: CDLL) -> int:
    """Let connections to other nodes end if their other side is silent for some seconds; return how many these are."""
    import ctypes

    count, options = 0, list_options(seconds)
    for number in numbers:
        address = peer(number, libc)
        if address and not address.startswith(LOCAL):
            refused = (libc.setsockopt(number, *each, ctypes.byref(ctypes.c_int(value)), 4) for *each, value in options)
            count += not any(refused)
    return count


def watch(modules: Mapping[str, object], seconds: int, ended: Event) -> None:
    """Look for new connections until the process ends, once what torch makes them with is imported."""
    while not ended.wait(PAUSE):
        if DISTRIBUTED in modules:
            import ctypes

            limit_all(list_sockets(), seconds, ctypes.CDLL(None))


def start(environ: Mapping[str, str]) -> None:
    """Start the thread, and let the process end it: Python may crash where a thread still runs at its very end."""
    value = environ.get(VARIABLE, "")
    seconds = min(int(value[:9]), MOST) if value.isascii() and value.isdigit() else 0
    if not seconds:
        return
    import atexit
    import threading

    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(sys.modules, seconds, ended), name="multinode-peers", daemon=True)
    thread.start()
    atexit.register(stop, thread, ended)


def stop(thread: Thread, ended: Event) -> None:
    """End the thread; a forked child has none, but perhaps a lock of the event that nobody gives back."""
    if thread.is_alive():
        ended.set()
        thread.join()


if __name__ == "multinode.peers":  # as the image's .pth file runs it
    start(os.environ)
