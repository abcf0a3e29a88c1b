"""Variables that name a network interface: whether it is there, by the rules of the library that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A variable, and the backend whose ranks read it.
READERS = (("GLOO_SOCKET_IFNAME", "gloo"), ("FI_TCP_IFACE", "ccl"), ("CCL_KVS_IFACE", "ccl"))
BACKENDS = ("gloo", "ccl")


def has_interface(variable: str, value: str, names: Sequence[str]) -> bool:
    """Return whether a library finds the interface of its variable.

    gloo takes a list, of which it ignores a single letter (torch/csrc/distributed/c10d/init.cpp); libfabric takes the
    beginning of a name, and any interface if there is none (ofi_get_list_of_addr); oneCCL any part of a name
    (internal_kvs::fill_local_host_ip).
    """
    if variable == "GLOO_SOCKET_IFNAME":
        return len(value) < 2 or set((value[:-1] if value.endswith(",") else value).split(",")) <= set(names)
    if variable == "FI_TCP_IFACE":
        return any(name.startswith(value) for name in names)
    return any(value in name for name in names)


def find_wrong(environ: Mapping[str, str], names: Sequence[str], backends: Sequence[str]) -> str | None:
    """Return the first variable, read by one of these backends, whose interface is not there.

    names: the interfaces of this container; where there are none, as without /sys, no variable counts as wrong.
    """
    for variable, backend in READERS:
        # An address may have a label, eth0:1, of which /sys does not know.
        value = ",".join(part.partition(":")[0] for part in environ.get(variable, "").split(","))
        if value and names and backend in backends and not has_interface(variable, value, names):
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
