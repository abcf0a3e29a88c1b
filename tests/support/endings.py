"""Errors that end a process of a training, in the words of torch, gloo and the kernel, and what is known then."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError
from unittest import mock

from multinode_image.hooks.compute.compiler import HEADERS
from multinode_image.hooks.ends.diagnose import Place, explain
from multinode_image.machine import limits
from multinode_image.machine.limits import Disk

HOST = socket.gethostname()
FILES = {
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": "838860800\n",
    "/sys/fs/cgroup/memory.events": "oom 1\noom_kill 1\n",
}
FULL = [Disk("/workspace/output", 64 << 20, 0)]
SHM = {"/dev/shm": Disk("/dev/shm", 32 << 20, 32 << 20)}
NO_SPACE = "No space left on device"
LIMIT = "the memory limit of this container, 800 MB, was reached"
WRITER = "[enforce fail at inline_container.cc:672] . "
NODES = {"PET_NNODES": "2", "PET_NODE_RANK": "0"}
COMPILER = "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config"
KILLED = "DataLoader worker (pid 12) is killed by signal: Killed. "


class SafetensorError(Exception):
    """Not a subclass of OSError."""


class RendezvousConnectionError(Exception):
    """What torchrun's agent raises when the node of the endpoint is gone."""


class RendezvousTimeoutError(Exception):
    """What it raises when too few nodes come."""


class RendezvousClosedError(Exception):
    """What it raises when a job has ended."""


class DistStoreError(RuntimeError):
    """What the store of torch raises."""


class DistNetworkError(RuntimeError):
    """What torch raises of sockets."""


class Signal(Exception):
    """What torchrun's agent raises when it gets a signal."""

    sigval = 15


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def place(environ: Mapping[str, str] | None = None, full: list[Disk] = FULL) -> Place:
    return Place({"RANK": "3"} if environ is None else environ, FILES.get, SHM.get, lambda: full)


LISTEN = "The server socket has failed to listen on any local network address. "
TAKEN = f"{LISTEN}port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
# Errors that are said in words.
ERRORS: tuple[BaseException, ...] = (
    OSError(28, NO_SPACE),
    SafetensorError("I/O error: (os error 28)"),
    RuntimeError(f"{WRITER}PytorchStreamWriter failed writing file data/2"),
    caused(RuntimeError(f"{WRITER}unexpected pos 64 vs 0"), OSError()),
    RuntimeError("basic_ios::clear: iostream error"),
    RuntimeError("DataLoader worker (pid 1) is killed by signal: Bus error. It"),
    RuntimeError(f"unable to write to file </torch_1_3>: {NO_SPACE} (28)"),
    RuntimeError(f"unable to allocate shared memory(shm) for file </torch_1>: {NO_SPACE}"),
    RuntimeError(f"unable to mmap 8 bytes from file </torch_1_3>: {NO_SPACE}"),
    RuntimeError(KILLED),
    RuntimeError("can't start new thread"),
    RuntimeError("Cannot fork"),
    BlockingIOError(11, "Resource temporarily unavailable"),
    RuntimeError("Resource temporarily unavailable"),
    OSError(24, "Too many open files"),
    RuntimeError("Too many open files. Communication with the workers is no longer possible."),
    RuntimeError("Distributed package doesn't have NCCL built in"),
    RuntimeError("Distributed package doesn't have MPI built in. MPI is only"),
    AssertionError("Unknown backend type ccl"),
    AssertionError("Unknown c10d backend type UCC"),
    ValueError("Invalid backend: 'torch-ucc'"),
    ModuleNotFoundError("No module named 'oneccl_bindings_for_pytorch'"),
    ModuleNotFoundError("No module named 'torch_ccl'"),
    ValueError("Your setup doesn't support bf16/gpu."),
    PackageNotFoundError("deepspeed"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
    OSError(12, "Cannot allocate memory"),
    MemoryError(),
    RuntimeError("std::bad_alloc"),
    RuntimeError("gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:9: Connection timed out"),
    RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [fd00::2]:9."),
    caused(OSError("The connection to the C10d store has failed."), RuntimeError("wait timeout after 60000ms")),
    RuntimeError("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to"),
    caused(RuntimeError("backend='inductor' raised:"), RuntimeError(f"{COMPILER}.cpp.cxx: (None, 'g++')")),
    RuntimeError("C++ compile error\nx.cpp:4:10: fatal error: Python.h: No such file or directory"),
    Signal("Process 7 got signal: 15"),
    DistNetworkError("failed to recv, got 0 bytes"),
    DistStoreError("Wait timeout after 3ms"),
    RuntimeError("gloo/transport/tcp/pair.cc:1] Connection reset by peer"),
    RuntimeError("C10d store: Broken pipe"),
    RuntimeError("c10d: No route to host"),
    RuntimeError("gloo: connect timed out"),
    RendezvousTimeoutError(),
    RendezvousClosedError(),
    caused(RendezvousConnectionError("to the C10d store has failed."), OSError("timed out")),
    DistStoreError("Timed out after 901 seconds waiting for clients. 1/2 clients joined."),
    DistStoreError("client socket has timed out after 900000ms while trying to connect to (pod0, 29500)."),
    DistNetworkError(TAKEN),
    DistStoreError("wait timeout after 9ms, keys: /smoke/torchelastic/role_info/0"),
    KeyboardInterrupt(),
)


def say_all() -> Iterator[tuple[str, list[str]]]:
    """Yield each error, with the lines that are printed for it and the exit code, on a host with small limits."""
    with (
        mock.patch.object(resource, "getrlimit", lambda _: (7, 9)),
        mock.patch.object(limits, "is_clone3_refused", lambda: False),
    ):
        for error in ERRORS:
            said = explain(error, place({**NODES, "RANK": "3"}))
            assert said is not None, error
            text = str(said).replace(HOST, "HOST").replace(HEADERS, "HEADERS")
            yield f"{type(error).__name__}: {error}", [*text.splitlines(), f"exit code {said.code}"]
