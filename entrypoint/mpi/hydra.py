"""What hydra is told: its command line, the variables for all ranks, and how it reaches the other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.machine.network import find_interface_to, own_address
from entrypoint.settings import forget

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def make_hydra_command(ranks: int, machines: str, root: str, words: list[str], *network: str) -> list[str]:
    """Return hydra's command line; every rank starts through the entrypoint.

    We watch the ranks ourselves. Hydra would kill those still at work when one ends well without MPI_Finalize, as ranks
    of oneCCL over MPI do.
    """
    hydra = ["mpiexec.hydra", *network, "-disable-auto-cleanup", "-machinefile", machines, "-n", str(ranks)]
    return [*hydra, "python3", "-I", "-S", root, *words]


def list_shared_variables(environ: Mapping[str, str], pins: Collection[str]) -> dict[str, str]:
    """Return the variables that hydra sets for all ranks, without those that the entrypoint set for this process only.

    pins: the I_MPI_PIN of each node with ranks. Hydra itself binds ranks to cores, before they have an entrypoint, on
    all nodes as it is told on this one. So it binds none where that would be wrong on one node, but as the user says.
    """
    return {**({"I_MPI_PIN": "0"} if "0" in pins else {}), **forget(environ)}


def find_hydra_interface(host: str) -> str | None:
    """Return the interface on the way to a host; None where its address is not of IPv4, for which hydra asks."""
    own = own_address(host)
    return find_interface_to(host) if own and ":" not in own else None


def make_bootstrap_variables(
    environ: Mapping[str, str], config: str, root: str, interface: str | None
) -> dict[str, str]:
    """Return the variables by which hydra reaches the other hosts, and they reach it; an operator's arguments stay.

    Without an interface hydra tells the others the name that it finds for its own address, and that may be another's
    there: podman writes host.containers.internal into every /etc/hosts.
    """
    extra = environ.get("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "")
    chosen = {} if interface is None or "I_MPI_HYDRA_IFACE" in environ else {"I_MPI_HYDRA_IFACE": interface}
    return {
        **chosen,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": f"{root}/ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": f"-F {config} {extra}".strip(),
    }
