"""Run a task on several nodes with Intel MPI over ssh; every rank starts through the entrypoint of its own node."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.addresses import is_loopback
from entrypoint.errors import Refusal
from entrypoint.machine.files import read_text, which, write_private
from entrypoint.machine.image import LAUNCHED, name_stack, read_stack
from entrypoint.machine.network import address_of, find_free_port, has_only_ipv6, is_here
from entrypoint.mpi.follow import run_ranks
from entrypoint.mpi.hosts import Host, default_hostfile, fill_hosts, place_ranks, read_hostfile, read_hosts
from entrypoint.mpi.hydra import (
    find_hydra_interface,
    list_shared_variables,
    make_bootstrap_variables,
    make_hydra_command,
)
from entrypoint.mpi.keys import explain_make, find_keys, read_ssh_port, write_client
from entrypoint.mpi.sshd import strip_preloads
from entrypoint.mpi.wait import Access, State, find_place, wait_for_hosts, warn_twins
from entrypoint.numbers import seconds, whole
from entrypoint.printing.streams import print_note
from entrypoint.settings import forget
from entrypoint.tasks import job as jobs
from entrypoint.tasks.preflight import Image, check_image
from entrypoint.tasks.table import find_task
from entrypoint.world import model as launchers
from entrypoint.world.alone import check_required_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.decide import Plan
    from entrypoint.machine.cpus import Machine
    from entrypoint.world.model import World

USAGE = "launch --hosts node0,node1 -n 2 --ppn 1 smoke --bf16"
TIMEOUT = 120
# Names that are looked up at once.
LOOK_UPS = 64
NAMES = {"-n": "ranks", "-np": "ranks", "--ppn": "each", "-ppn": "each", "--timeout": "timeout",
         "--hosts": "hosts", "-hosts": "hosts", "--hostfile": "hostfile", "-f": "hostfile"}  # fmt: skip


class Request(NamedTuple):
    """What `launch` was asked for."""

    hosts: list[Host]
    ranks: int | None
    each: int | None
    timeout: int
    words: list[str]


def read_request(words: list[str], environ: Mapping[str, str]) -> Request:
    """Return the options before the task, and the task; raise Refusal for an option that is none."""
    left, given = list(words), {}
    while left and left[0].startswith("-"):
        name, equals, value = left.pop(0).partition("=")
        if name not in NAMES:
            raise Refusal("launch has no such option", name, USAGE)
        if not equals and not left:
            raise Refusal("an option of launch has no value", name, USAGE)
        given[NAMES[name]] = value if equals else left.pop(0)
    numbers = {key: whole(given[key]) for key in ("ranks", "each", "timeout") if key in given}
    for key, count in numbers.items():
        if not count:
            raise Refusal("an option of launch takes a number above 0", repr(given[key]), USAGE)
    if not left:
        raise Refusal("launch has nothing to run", "no task", USAGE)
    hosts = find_hosts(given, environ)
    timeout = numbers.get("timeout") or seconds(environ, "MULTINODE_TIMEOUT", TIMEOUT) or TIMEOUT
    return Request(hosts, numbers.get("ranks"), numbers.get("each"), timeout, left)


def find_hosts(given: Mapping[str, str], environ: Mapping[str, str]) -> list[Host]:
    """List the hosts: from the command line, or from the file that an operator has written."""
    hosts: list[Host] = []
    path = given.get("hostfile") or ("" if "hosts" in given else default_hostfile(environ))
    if "hosts" in given:
        hosts = read_hosts(given["hosts"])
    elif path:
        text = read_text(path)
        if text is None:
            raise Refusal("the hostfile cannot be read", path, "--hostfile FILE, or --hosts node0,node1")
        hosts = read_hostfile(text, path)
    if not hosts:
        raise Refusal("launch knows no hosts", path or "neither --hosts nor --hostfile", USAGE)
    loopback = next((host.name for host in hosts if is_loopback(host.name)), None)
    if loopback and len(hosts) > 1:
        raise Refusal("loopback is a different machine on every host", loopback, "this host's name on the network")
    return hosts


def explain_launch(words: list[str], decision: Plan, root: str) -> Plan:
    """Return the decision with the ranks that `launch` would start; it asks for no keys, and waits for no host.

    Of the variables only those for every rank are left: the others are this process's, and each rank has its own.
    """
    environ, machine = decision.prepared.environ, decision.machine
    request = read_request(words, environ)
    check_command(request.words, environ, root)
    hosts, ranks = place_ranks(request.hosts, request.ranks, request.each, machine.filled_nodes)
    variables = {**job_variables(environ, hosts, ranks), **share_cores(environ, hosts, ranks, machine)}
    filled = fill_hosts(hosts, ranks)
    placed = " ".join(f"{host.name}:{host.slots}" for host in filled)
    return replace(
        decision,
        world=make_world(decision.world, filled, ranks, variables),
        prepared=decision.prepared._replace(added=variables),
        argv=make_hydra_command(ranks, "HOSTS", root, request.words),
        notes=[
            *decision.notes,
            f"ranks on {placed}; HOSTS is a file that is written with them",
            "every rank sets threads, libraries and interface for its own node",
        ],
        reasons=dict.fromkeys(variables, "for every rank"),
    )


def make_world(here: World, filled: list[Host], ranks: int, variables: Mapping[str, str]) -> World:
    """Return the world of the ranks; as many on each node as on the first, whose own log says so too."""
    nodes, port = len(filled), launchers.read_master_port(variables["MASTER_PORT"])
    return launchers.World(
        here.launcher, here.why, (nodes, nodes), local_size=filled[0].slots, size=ranks,
        master=variables["MASTER_ADDR"], port=port,
    )  # fmt: skip


def check_command(words: list[str], environ: Mapping[str, str], root: str) -> None:
    """Raise Refusal for what the ranks would refuse: no command, or a task that the image of all nodes lacks."""
    stack = read_stack(read_text(f"{root}/stack.json"))
    job = jobs.read_job(words, environ, which, stack.examples)
    if job.kind == jobs.TASK:
        check_image(find_task(job.name), Image(stack, environ))


def launch(words: list[str], environ: Mapping[str, str], root: str, machine: Machine) -> int:
    """Wait for the hosts, run the ranks, and return the exit code of the job."""
    request = read_request(words, environ)
    check_command(request.words, environ, root)
    hosts, ranks = place_ranks(request.hosts, request.ranks, request.each, machine.filled_nodes)
    shared = job_variables(environ, hosts, ranks)
    away = find_away(hosts)
    if len(away) < len(hosts):
        warn_crowd(hosts, machine)
    keys = find_keys(environ) if away else None
    directory = keys.directory if keys else f"/tmp/multinode-{os.getuid()}"
    if keys:
        if keys.private is None:
            raise Refusal(
                "launch needs the private key, not only authorized_keys", keys.directory, explain_make(environ)
            )
        port = read_ssh_port(environ)
        access = Access(
            write_client(keys, environ, port), port, strip_preloads(environ), time.monotonic() + request.timeout
        )
        states = wait_for_hosts(away, access, request.timeout)
        shared[LAUNCHED] = name_stack(read_stack(read_text(f"{root}/stack.json")))
        shared |= make_bootstrap_variables(environ, access.config, root, find_hydra_interface(away[0]))
    else:
        from entrypoint.machine.files import make_private

        make_private(directory)
        states = {}
    pin = environ.get("I_MPI_PIN", "")
    here = State("", find_place(), pin)
    found = {host.name: states.get(host.name, here) for host in hosts}
    warn_twins({name: state.place for name, state in found.items()})
    pins = {pin if state.pin is None else state.pin for state in found.values()}
    if "0" not in pins:
        shared |= share_cores(environ, hosts, ranks, machine)
    lines = "".join(f"{host.name}:{host.slots}\n" for host in hosts)
    machines = write_private(f"{directory}/hosts.{os.getpid()}", lines)
    try:
        # With it hydra takes IPv6 alone, and without it IPv4 alone.
        network = ["-v6"] if select(away, has_only_ipv6) else []
        return run_ranks(
            make_hydra_command(ranks, machines, root, request.words, *network),
            {**list_shared_variables(environ, pins), **shared},
        )
    finally:
        os.unlink(machines)


def warn_crowd(hosts: list[Host], machine: Machine) -> None:
    """Print a warning if ranks will share cores, judged by this node."""
    most = max(host.slots or 1 for host in hosts)
    if most > machine.cores:
        print_note(f"{most} ranks on a node with {machine.cores} core(s): they share them")


def share_cores(environ: Mapping[str, str], hosts: list[Host], ranks: int, machine: Machine) -> dict[str, str]:
    """Return variables that pin ranks and oneCCL's workers, if this host and all others have as many ranks.

    Whether this host is one of them is asked last: it may need a name server.
    """
    counts = {host.slots or 1 for host in hosts}
    if len(counts) > 1 or ranks != len(hosts) * max(counts) or ranks < 2 or not environ.get("CCL_ROOT"):
        return {}
    from entrypoint.tuning.threads import pin_ranks  # an image without oneCCL pays nothing for it

    return pin_ranks(machine, counts.pop(), environ) if any(is_here(host.name) for host in hosts) else {}


def job_variables(environ: Mapping[str, str], hosts: list[Host], ranks: int) -> dict[str, str]:
    """Return the variables that are the same for all ranks; hydra puts rank 0 on the first host: the master.

    What was set for this process is not for them: an mpirun may have started it as its only rank. Raise Refusal for a
    world of another size than MULTINODE_WORLD_SIZE.
    """
    given = forget(environ)
    check_required_size(given, launchers.World(launchers.MPI, "launch", size=ranks))
    master = given.get("MASTER_ADDR") or ("127.0.0.1" if len(hosts) == 1 else address_of(hosts[0].name, hosts[1].name))
    return {
        "MASTER_ADDR": master,
        "MASTER_PORT": given.get("MASTER_PORT") or str(choose_free_port()),
        "MULTINODE_WORLD_SIZE": str(ranks),
    }


def choose_free_port() -> int:
    """Return a port for rank 0 that is free on this node, where it usually is; another for each job."""
    return find_free_port(launchers.PORTS, time.time_ns() // 1000 % len(launchers.PORTS)) or launchers.PORT


def find_away(hosts: list[Host]) -> list[str]:
    """Return the names of the hosts that are not this one."""
    names = [host.name for host in hosts]
    here = select(names, is_here)
    return [name for name in names if name not in here]


def select(names: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Return the names of hosts that fit, all looked up at once: a name server may not answer."""
    with ThreadPoolExecutor(min(max(1, len(names)), LOOK_UPS)) as pool:
        return [name for name in pool.map(lambda name: name if fits(name) else "", names) if name]
