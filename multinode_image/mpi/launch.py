"""Run a task on several nodes with Intel MPI over ssh; every rank starts through the entrypoint of its own node."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Callable, NamedTuple

from multinode_image import timeouts
from multinode_image.decide import Plan
from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.facts import Facts
from multinode_image.hooks.job.word import WORD, offer_place, take_last_line
from multinode_image.machine.files import lend_private, which, write_private
from multinode_image.machine.image import LAUNCHED, name_stack
from multinode_image.machine.network import (
    address_of,
    find_free_port,
    find_local_address,
    has_only_ipv6,
    is_here,
    name_interface,
)
from multinode_image.mpi.hosts import USAGE, find_hosts, place_ranks
from multinode_image.mpi.keys import find_keys, read_ssh_port, strip_preloads, write_client
from multinode_image.mpi.rank import LOST, SUPERVISED
from multinode_image.printing.streams import print_error, print_note
from multinode_image.reading import PORT, read_port, whole
from multinode_image.settings import SIZE, forget
from multinode_image.tasks.command import read_command
from multinode_image.tasks.table import place_script
from multinode_image.timeouts import VARIABLE
from multinode_image.world.alone import check_required_size, write_required_size
from multinode_image.world.model import MPI, World
from multinode_image.world.ranks import PORTS

# Between two tries of a host that does not answer yet.
PAUSE = 0.5
# The seconds that pass before anything is printed.
SILENCE = 2.0
# The seconds of one login at most: Python takes no more than some weeks.
LONGEST = 86400.0
UNTRIED, SILENT = "no answer yet", "ssh does not answer"


class Access(NamedTuple):
    """How to reach hosts: ssh's configuration, port and environment, and the deadline (time.monotonic)."""

    config: str
    port: int
    environ: Mapping[str, str]
    deadline: float


def wait_for_hosts(hosts: list[str], access: Access, timeout: float) -> None:
    """Try all hosts at once until each answers; raise Refusal with those that do not."""
    faults = dict.fromkeys(hosts, UNTRIED)
    threads = [threading.Thread(target=try_host, args=(host, access, faults), daemon=True) for host in hosts]
    for thread in threads:
        thread.start()
    silent = list_silent(faults, threads, min(time.monotonic() + SILENCE, access.deadline))
    if silent:
        print_note(f"waiting for {silent}")
        silent = list_silent(faults, threads, access.deadline + 0.1)
    if silent:
        how = f"with the same key and the same --user, reachable on port {access.port}"
        remedy = f"start `worker` there {how}, or wait longer: --timeout S, or {VARIABLE}=S"
        raise Refusal(f"not every host answered within {timeout:g} s", silent, remedy, EXIT_OUTSIDE)


def list_silent(faults: Mapping[str, str], threads: list[threading.Thread], until: float) -> str:
    """Wait for all hosts up to a time, and list those that do not answer, each with the reason."""
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return ", ".join(f"{host} ({fault})" for host, fault in faults.items() if fault)


def try_host(host: str, access: Access, faults: dict[str, str]) -> None:
    """Try one host until it answers, and keep why it does not; empty once it does."""
    while faults[host] and time.monotonic() < access.deadline:
        fault = try_ssh(host, access)
        # The deadline cuts the last try short; what an earlier one said is worth more.
        if fault != SILENT or faults[host] == UNTRIED:
            faults[host] = fault
        if fault:
            time.sleep(PAUSE)


def try_ssh(host: str, access: Access) -> str:
    """Return why a login fails, in ssh's own words; empty if it does not."""
    left = min(LONGEST, max(0.5, access.deadline - time.monotonic()))
    try:
        done = subprocess.run(
            ["ssh", "-F", access.config, host, "true"],
            env=dict(access.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=left,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return SILENT
    if not done.returncode:
        return ""
    said = done.stderr.strip() or done.stdout.strip()  # a shell that runs no command says so on stdout
    return said.splitlines()[-1] if said else f"exit code {done.returncode}"


# Names that are looked up at once.
LOOK_UPS = 64
OPTIONS = {
    "-n": "ranks", "-np": "ranks", "--ppn": "each", "-ppn": "each", "--timeout": "timeout",
    "--hosts": "hosts", "-hosts": "hosts", "--hostfile": "hostfile", "-f": "hostfile",
}  # fmt: skip
# Any of these says that the user binds the ranks.
PINNED = ("I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST")
# Hydra would read these and follow them rather than the machinefile.
OF_HYDRA = ("I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST")


# How the variables begin of Intel's hydra, and of MPICH's, and how each names more arguments for ssh. An image has one
# of them, which does not read those of the other.
HYDRAS = {"I_MPI_HYDRA": "BOOTSTRAP_EXEC_EXTRA_ARGS", "HYDRA": "LAUNCHER_EXTRA_ARGS"}


class Job(NamedTuple):
    """The job of a command line of `launch`.

    hosts: those that get ranks, rank 0 first, and how many; words: what the ranks run; timeout: how long hosts are
    waited for, in seconds.
    """

    hosts: dict[str, int]
    words: list[str]
    timeout: int

    @property
    def ranks(self) -> int:
        """Count the ranks."""
        return sum(self.hosts.values())


def read_launch_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options before the task, and the task; raise Refusal for an option that is none."""
    left, options = list(words), {}
    while left and left[0].startswith("-"):
        name, equals, value = left.pop(0).partition("=")
        if name not in OPTIONS:
            raise Refusal("launch has no such option", name, USAGE)
        if not equals and not left:
            raise Refusal("an option of launch has no value", name, USAGE)
        options[OPTIONS[name]] = value if equals else left.pop(0)
    if not left:
        raise Refusal("launch has nothing to run", "no task", USAGE)
    return options, left


def read_job(words: list[str], environ: Mapping[str, str], facts: Facts) -> Job:
    """Return the job of a command line; raise Refusal for what is no option, and for what all ranks would refuse."""
    options, left = read_launch_options(words)
    numbers = {key: whole(options[key]) for key in ("ranks", "each", "timeout") if key in options}
    for key, count in numbers.items():
        if not count:
            raise Refusal("an option of launch takes a number above 0", repr(options[key]), USAGE)
    hosts = find_hosts(options.get("hosts"), options.get("hostfile"), environ)
    timeout = timeouts.read_timeout(environ, timeouts.HOSTS)
    command = read_command(left, environ, which, facts.stack.examples)
    if command.task is not None:
        place_script(command.name, facts.stack)
    placed = place_ranks(hosts, numbers.get("ranks"), numbers.get("each"), facts.machine.filled_nodes)
    return Job(placed, left, numbers.get("timeout") or timeout)


def explain_launch(words: list[str], plan: Plan) -> Plan:
    """Return the plan with the ranks that `launch` would start; it asks for no keys, and waits for no host.

    Of the variables only those for every rank are left: the others are this process's, and each rank has its own.
    """
    environ = forget(plan.prepared.environ)
    job = read_job(words, plan.prepared.environ, plan.facts)
    variables = job_variables(environ, job, "a free port")
    world = World(  # as many ranks on each node as on the first, whose own log says so too
        plan.world.launcher,
        plan.world.why,
        (len(job.hosts), len(job.hosts)),
        local_size=next(iter(job.hosts.values())),
        size=job.ranks,
        master=variables["MASTER_ADDR"],
        port=read_port(environ.get("MASTER_PORT", "")),
    )
    placed = " ".join(f"{name}:{count}" for name, count in job.hosts.items())
    return replace(
        plan,
        situation=plan.situation._replace(world=world),
        prepared=plan.prepared._replace(added=variables),
        argv=make_hydra_command(job, "HOSTS", plan.facts.root),
        notes=[
            *plan.notes,
            f"ranks on {placed}; HOSTS is a file that is written with them",
            "every rank sets threads, libraries and interface for its own node",
        ],
        reasons=dict.fromkeys(variables, "for every rank"),
    )


def launch(words: list[str], environ: Mapping[str, str], facts: Facts) -> int:
    """Wait for the hosts, run the ranks, and return the exit code of the job."""
    job = read_job(words, environ, facts)
    # A port that is free on this node, where rank 0 usually is; another for each job.
    port = find_free_port(PORTS, time.time_ns() // 1000 % len(PORTS)) or PORT
    shared = job_variables(forget(environ), job, str(port))
    away = select_hosts(job.hosts, lambda name: not is_here(name))
    with lend_private("launch") as directory:
        if away:
            shared |= reach(away, environ, facts, job.timeout, directory)
        rows = "".join(f"{name}:{count}\n" for name, count in job.hosts.items())
        machines = write_private(f"{directory}/hosts", rows)
        # With it hydra takes IPv6 alone, and without it IPv4 alone.
        network = ["-v6"] if select_hosts(away, has_only_ipv6) else []
        return run_hydra(make_hydra_command(job, machines, facts.root, *network), {**forget(environ), **shared})


def reach(away: list[str], environ: Mapping[str, str], facts: Facts, timeout: int, directory: str) -> dict[str, str]:
    """Wait until other hosts answer, and return the variables by which hydra reaches them; directory: for files."""
    keys, port = find_keys(environ, directory), read_ssh_port(environ)
    config = write_client(keys, port)
    wait_for_hosts(away, Access(config, port, strip_preloads(environ), time.monotonic() + timeout), timeout)
    address = find_local_address(away[0])
    # Hydra asks for the interface of an address of IPv4.
    interface = name_interface(address) if address and ":" not in address else None
    bootstrap = make_bootstrap_variables(environ, config, facts.root, interface)
    return {LAUNCHED: name_stack(facts.stack), **bootstrap}


def run_hydra(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run hydra and return the exit code of the job: of its first rank that failed, or of a signal to this process.

    A signal ends the ranks; those that go on after it are killed, for their nodes end them with hydra's connection.
    """
    stopped: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def stop(number: int, _: object) -> None:
        if not stopped:  # a further signal gives no more time
            signal.setitimer(signal.ITIMER_REAL, timeouts.RANKS_END)
        stopped.append(number)
        for hydra in started:
            hydra.terminate()

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, stop)
    signal.signal(signal.SIGALRM, lambda *_: started[0].kill() if started else None)
    clean = {name: value for name, value in environ.items() if name not in (*OF_HYDRA, WORD)}
    offer_place(clean)
    with subprocess.Popen(argv, env={**clean, SUPERVISED: "1"}) as hydra:
        started.append(hydra)
        if stopped:
            hydra.terminate()
        code = hydra.wait()
        signal.setitimer(signal.ITIMER_REAL, 0)
    for line in take_last_line(clean):
        if not code and not stopped:
            print_note(line)
    if stopped:
        return 128 + stopped[0]
    if code in (LOST, -signal.SIGPIPE):
        fact = "hydra has lost a node or a rank, or a node does not reach another"
        remedy = "start a `worker` that has ended, let nodes reach each other at all ports, and type the same again"
        print_error(Refusal(fact, "it is named above", remedy, EXIT_OUTSIDE))
        return EXIT_OUTSIDE
    return 128 - code if code < 0 else code


def make_hydra_command(job: Job, machines: str, root: str, *network: str) -> list[str]:
    """Return hydra's command line; every rank starts through the entrypoint, which ends the job where it fails."""
    hydra = ["mpiexec.hydra", *network, "-disable-auto-cleanup", "-machinefile", machines, "-n", str(job.ranks)]
    return [*hydra, "python3", "-I", "-S", root, *job.words]


def make_bootstrap_variables(
    environ: Mapping[str, str], config: str, root: str, interface: str | None
) -> dict[str, str]:
    """Return the variables by which hydra reaches the other hosts, and they reach it; an operator's arguments stay.

    Without an interface hydra sends the others the name that its address resolves to, which may be another host for
    them: podman writes host.containers.internal into every /etc/hosts.
    """
    variables: dict[str, str] = {}
    for hydra, more in HYDRAS.items():
        extra = f"-F {config} {environ.get(f'{hydra}_{more}', '')}".strip()
        variables |= {f"{hydra}_BOOTSTRAP": "ssh", f"{hydra}_BOOTSTRAP_EXEC": f"{root}/ssh", f"{hydra}_{more}": extra}
        if interface is not None and f"{hydra}_IFACE" not in environ:
            variables[f"{hydra}_IFACE"] = interface
    return variables


def job_variables(environ: Mapping[str, str], job: Job, port: str) -> dict[str, str]:
    """Return the variables that are the same for all ranks; hydra puts rank 0 on the first host: the master.

    environ: without what was set for this process, which an mpirun may have started as its only rank; port: where the
    master listens if nobody has chosen that. Each rank takes its cores itself, so hydra binds none, unless the user
    says how. Raise Refusal for a world of another size than MULTINODE_WORLD_SIZE.
    """
    world = World(MPI, "launch", size=job.ranks)
    check_required_size(environ, world)
    first, *others = job.hosts
    return {
        **({} if any(environ.get(name) for name in PINNED) else {PINNED[0]: "0"}),
        "MASTER_ADDR": environ.get("MASTER_ADDR") or (address_of(first, others[0]) if others else "127.0.0.1"),
        "MASTER_PORT": environ.get("MASTER_PORT") or port,
        SIZE: write_required_size(world),
    }


def select_hosts(names: Collection[str], fits: Callable[[str], bool]) -> list[str]:
    """Return the names of hosts that fit, all looked up at once: a name server may not answer."""
    with ThreadPoolExecutor(min(max(1, len(names)), LOOK_UPS)) as pool:
        return [name for name in pool.map(lambda name: name if fits(name) else "", names) if name]
