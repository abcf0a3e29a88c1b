"""Variables that name a network interface: whether it is there, by the rules of the library that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from entrypoint.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def has_gloo(value: str, names: Sequence[str]) -> bool:
    """Return whether gloo finds all of `eth0,eth1`; torch ignores a single letter, and a blank belongs to a name.

    Source: ProcessGroupGloo in torch/csrc/distributed/c10d/init.cpp, and split in c10d/Backend.hpp or Utils.hpp.
    """
    each = (value[:-1] if value.endswith(",") else value).split(",")
    return len(value) < 2 or all(name in names for name in each)


def has_libfabric(value: str, names: Sequence[str]) -> bool:
    """Return whether libfabric finds an interface; if not it takes any, and says so only in its log.

    Source: ofi_get_list_of_addr of libfabric, which in old releases takes the beginning of a name.
    """
    return any(name.startswith(value) for name in names)


def has_oneccl(value: str, names: Sequence[str]) -> bool:
    """Return whether oneCCL finds an interface, for which any part of a name is enough.

    Source: internal_kvs::fill_local_host_ip in src/atl/util/pm/pmi_resizable_rt/pmi_resizable/kvs/internal_kvs.cpp.
    """
    return any(value in name for name in names)


# A variable, the backend whose ranks read it, and how.
READERS: tuple[tuple[str, str, Callable[[str, Sequence[str]], bool]], ...] = (
    ("GLOO_SOCKET_IFNAME", "gloo", has_gloo),
    ("FI_TCP_IFACE", "ccl", has_libfabric),
    ("CCL_KVS_IFACE", "ccl", has_oneccl),
)
BACKENDS = ("gloo", "ccl")


def find_wrong(environ: Mapping[str, str], names: Sequence[str], backends: Sequence[str]) -> str | None:
    """Return the first variable, read by one of these backends, whose interface is not there.

    names: the interfaces of this container; where there are none, as without /sys, no variable counts as wrong.
    """
    for variable, backend, has in READERS:
        # An address may have a label, eth0:1, of which /sys does not know.
        value = ",".join(part.partition(":")[0] for part in environ.get(variable, "").split(","))
        if value and names and backend in backends and not has(value, names):
            return variable
    return None


def check_interfaces(environ: Mapping[str, str], names: Sequence[str], backend: str) -> None:
    """Raise Refusal for a variable of the user's that names an interface which is not in this container.

    Each rank would end in a traceback, or meet the others on another network than was meant.
    """
    variable = find_wrong(environ, names, (backend,))
    if variable:
        remedy = f"unset {variable}, for the interface on the way to rank 0, or name one of these: {', '.join(names)}"
        raise Refusal("there is no such network interface", f"{variable}={environ[variable]}", remedy)
