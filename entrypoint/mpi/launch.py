"""Run a task on several nodes with Intel MPI over ssh; every rank starts through the entrypoint of its own node."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Callable, NamedTuple

from entrypoint.addresses import PORT, read_port
from entrypoint.decide import Plan
from entrypoint.errors import EXIT_OUTSIDE, Refusal
from entrypoint.facts import Facts
from entrypoint.machine.files import make_private, name_aside, private_path, which, write_private
from entrypoint.machine.image import LAUNCHED, Stack, name_stack
from entrypoint.machine.network import (
    address_of,
    find_free_port,
    has_only_ipv6,
    is_here,
    name_interface,
    own_address,
)
from entrypoint.mpi.hosts import USAGE, Host, find_hosts, place_ranks
from entrypoint.mpi.keys import find_keys, read_ssh_port, strip_preloads, write_client
from entrypoint.mpi.rank import LOST, SUPERVISED
from entrypoint.mpi.wait import Access, wait_for_hosts
from entrypoint.numbers import seconds, whole
from entrypoint.printing.streams import print_error
from entrypoint.settings import forget
from entrypoint.tasks.command import read_command
from entrypoint.tasks.table import place_script
from entrypoint.world.alone import check_required_size
from entrypoint.world.model import MPI, World
from entrypoint.world.ranks import PORTS

TIMEOUT = 120
# Names that are looked up at once.
LOOK_UPS = 64
# How long ranks may take to end after a signal, in seconds; a container is killed 10 s after it.
GRACE = 8.0
OPTIONS = {
    "-n": "ranks", "-np": "ranks", "--ppn": "each", "-ppn": "each", "--timeout": "timeout",
    "--hosts": "hosts", "-hosts": "hosts", "--hostfile": "hostfile", "-f": "hostfile",
}  # fmt: skip
# Any of these says that the user binds the ranks.
PINNED = ("I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST")
# Hydra would read these and follow them rather than the machinefile.
HYDRA_S_OWN = ("I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST")


class Request(NamedTuple):
    """What `launch` was asked for."""

    hosts: list[Host]
    ranks: int | None
    each: int | None
    timeout: int
    words: list[str]


def read_request(words: list[str], environ: Mapping[str, str]) -> Request:
    """Return the options before the task, and the task; raise Refusal for an option that is none."""
    left, options = list(words), {}
    while left and left[0].startswith("-"):
        name, equals, value = left.pop(0).partition("=")
        if name not in OPTIONS:
            raise Refusal("launch has no such option", name, USAGE)
        if not equals and not left:
            raise Refusal("an option of launch has no value", name, USAGE)
        options[OPTIONS[name]] = value if equals else left.pop(0)
    numbers = {key: whole(options[key]) for key in ("ranks", "each", "timeout") if key in options}
    for key, count in numbers.items():
        if not count:
            raise Refusal("an option of launch takes a number above 0", repr(options[key]), USAGE)
    if not left:
        raise Refusal("launch has nothing to run", "no task", USAGE)
    hosts = find_hosts(options.get("hosts"), options.get("hostfile"), environ)
    asked = seconds(environ, "MULTINODE_TIMEOUT", TIMEOUT)
    timeout = numbers.get("timeout") or (TIMEOUT if asked is None else asked)
    return Request(hosts, numbers.get("ranks"), numbers.get("each"), timeout, left)


def explain_launch(words: list[str], plan: Plan) -> Plan:
    """Return the plan with the ranks that `launch` would start; it asks for no keys, and waits for no host.

    Of the variables only those for every rank are left: the others are this process's, and each rank has its own.
    """
    environ = plan.prepared.environ
    request = read_request(words, environ)
    check_command(request.words, environ, plan.facts.stack)
    hosts, ranks = place_ranks(request.hosts, request.ranks, request.each, plan.machine.filled_nodes)
    variables = job_variables(environ, hosts, ranks)
    placed = " ".join(f"{host.name}:{host.slots}" for host in hosts)
    return replace(
        plan,
        situation=plan.situation._replace(world=make_world(plan.world, hosts, ranks, variables)),
        prepared=plan.prepared._replace(added=variables),
        argv=make_hydra_command(ranks, "HOSTS", plan.facts.root, request.words),
        notes=[
            *plan.notes,
            f"ranks on {placed}; HOSTS is a file that is written with them",
            "every rank sets threads, libraries and interface for its own node",
        ],
        reasons=dict.fromkeys(variables, "for every rank"),
    )


def make_world(here: World, hosts: list[Host], ranks: int, variables: Mapping[str, str]) -> World:
    """Return the world of the ranks; as many on each node as on the first, whose own log says so too."""
    nodes, port = len(hosts), read_port(variables["MASTER_PORT"])
    return World(
        here.launcher, here.why, (nodes, nodes), local_size=hosts[0].slots, size=ranks,
        master=variables["MASTER_ADDR"], port=port,
    )  # fmt: skip


def check_command(words: list[str], environ: Mapping[str, str], stack: Stack) -> None:
    """Raise Refusal for what the ranks would refuse: no command, or a task that the image of all nodes lacks."""
    job = read_command(words, environ, which, stack.examples)
    if job.task is not None:
        place_script(job.name, stack)


def launch(words: list[str], environ: Mapping[str, str], facts: Facts) -> int:
    """Wait for the hosts, run the ranks, and return the exit code of the job."""
    request = read_request(words, environ)
    check_command(request.words, environ, facts.stack)
    hosts, ranks = place_ranks(request.hosts, request.ranks, request.each, facts.machine.filled_nodes)
    shared, away = job_variables(environ, hosts, ranks), find_away(hosts)
    if away:
        shared |= reach(away, environ, facts, request.timeout)
    machines = name_aside(os.path.join(make_private(private_path()), "hosts"))  # containers may share the directory
    write_private(machines, "".join(f"{host.name}:{host.slots}\n" for host in hosts))
    try:
        # With it hydra takes IPv6 alone, and without it IPv4 alone.
        network = ["-v6"] if select(away, has_only_ipv6) else []
        command = make_hydra_command(ranks, machines, facts.root, request.words, *network)
        return run_hydra(command, {**forget(environ), **shared})
    finally:
        os.unlink(machines)


def reach(away: list[str], environ: Mapping[str, str], facts: Facts, timeout: int) -> dict[str, str]:
    """Wait until other hosts answer, and return the variables by which hydra reaches them."""
    keys, port = find_keys(environ, private=True), read_ssh_port(environ)
    config = write_client(keys, environ, port)
    wait_for_hosts(away, Access(config, port, strip_preloads(environ), time.monotonic() + timeout), timeout)
    bootstrap = make_bootstrap_variables(environ, config, facts.root, find_hydra_interface(away[0]))
    return {LAUNCHED: name_stack(facts.stack), **bootstrap}


def run_hydra(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run hydra and return the exit code of the job: of its first rank that failed, or of a signal to this process.

    A signal ends the ranks; those that go on after it are killed, for their nodes end them with hydra's connection.
    """
    stopped: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def stop(number: int, _: object) -> None:
        if not stopped:  # a further signal gives no more time
            signal.setitimer(signal.ITIMER_REAL, GRACE)
        stopped.append(number)
        for hydra in started:
            hydra.terminate()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(signal.SIGALRM, lambda *_: started[0].kill() if started else None)
    clean = {name: value for name, value in environ.items() if name not in HYDRA_S_OWN}
    with subprocess.Popen(argv, env={**clean, SUPERVISED: "1"}) as hydra:
        started.append(hydra)
        if stopped:
            hydra.terminate()
        code = hydra.wait()
        signal.setitimer(signal.ITIMER_REAL, 0)
    if stopped:
        return 128 + stopped[0]
    if code in (LOST, -signal.SIGPIPE):
        fact = "hydra has lost a node or a rank, or a node does not reach another"
        remedy = "start a `worker` that has ended, let nodes reach each other at all ports, and type the same again"
        print_error(Refusal(fact, "it is named above", remedy, EXIT_OUTSIDE))
        return EXIT_OUTSIDE
    return 128 - code if code < 0 else code


def make_hydra_command(ranks: int, machines: str, root: str, words: list[str], *network: str) -> list[str]:
    """Return hydra's command line; every rank starts through the entrypoint, which ends the job where it fails."""
    hydra = ["mpiexec.hydra", *network, "-disable-auto-cleanup", "-machinefile", machines, "-n", str(ranks)]
    return [*hydra, "python3", "-I", "-S", root, *words]


def find_hydra_interface(host: str) -> str | None:
    """Return the interface on the way to a host; None where its address is not of IPv4, for which hydra asks."""
    own = own_address(host)
    return name_interface(own) if own and ":" not in own else None


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


def job_variables(environ: Mapping[str, str], hosts: list[Host], ranks: int) -> dict[str, str]:
    """Return the variables that are the same for all ranks; hydra puts rank 0 on the first host: the master.

    What was set for this process is not for them: an mpirun may have started it as its only rank. Each rank takes its
    cores itself, so hydra binds none, unless the user says how. Raise Refusal for a world of another size than
    MULTINODE_WORLD_SIZE.
    """
    kept = forget(environ)
    check_required_size(kept, World(MPI, "launch", size=ranks))
    master = kept.get("MASTER_ADDR") or ("127.0.0.1" if len(hosts) == 1 else address_of(hosts[0].name, hosts[1].name))
    return {
        **({} if any(kept.get(name) for name in PINNED) else {PINNED[0]: "0"}),
        "MASTER_ADDR": master,
        "MASTER_PORT": kept.get("MASTER_PORT") or str(choose_free_port()),
        "MULTINODE_WORLD_SIZE": str(ranks),
    }


def choose_free_port() -> int:
    """Return a port for rank 0 that is free on this node, where it usually is; another for each job."""
    return find_free_port(PORTS, time.time_ns() // 1000 % len(PORTS)) or PORT


def find_away(hosts: list[Host]) -> list[str]:
    """Return the names of the hosts that are not this one."""
    names = [host.name for host in hosts]
    here = select(names, is_here)
    return [name for name in names if name not in here]


def select(names: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Return the names of hosts that fit, all looked up at once: a name server may not answer."""
    with ThreadPoolExecutor(min(max(1, len(names)), LOOK_UPS)) as pool:
        return [name for name in pool.map(lambda name: name if fits(name) else "", names) if name]
