"""Training on two machines with podman and ssh, as docs/mpi.md types it, and what such machines are like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster import hosts
from tests.cluster.hosts import Host, Store
from tests.cluster.nodes import MEET, MEETS, places
from tests.support.documents import page
from tests.support.harness import Done

pytestmark = pytest.mark.slow

BOTH = ["node0 0/1", "node1 0/1"]
# A second interface with the default route; its other end is nobody's.
NAT_NETWORK = """\
ip link add nat0 type veth peer name nat1
ip address add 10.0.2.15/24 dev nat0
ip link set nat0 up && ip link set nat1 up
ip route replace default via 10.0.2.2
"""
KEYS = "-v ~/keys:/etc/multinode/ssh:ro"


@pytest.fixture(scope="module")
def store(image: str, module_path: Path) -> Iterator[Store]:
    """Hand the image over to podman."""
    lacking = hosts.missing()
    if lacking:
        pytest.skip(lacking)
    with hosts.open_store(module_path, image) as lent:
        yield lent


@pytest.fixture(scope="module")
def both_up(store: Store, module_path: Path) -> Iterator[Sequence[Host]]:
    """Bring two hosts up that have one key."""
    with hosts.up(store, module_path) as pair:
        make = "mkdir -m 755 keys && ssh-keygen -q -t ed25519 -N '' -f keys/id_ed25519 && chmod 644 keys/id_ed25519"
        assert pair[0].run(f"{make} && scp -pr keys node1:").code == 0
        yield pair


@pytest.fixture
def pair(both_up: Sequence[Host]) -> Iterator[Sequence[Host]]:
    """Lend both hosts, and end what a test leaves there."""
    yield both_up
    for host in both_up:
        host.clear()


def start(store: Store, options: str, *command: str) -> str:
    """Write `podman run` on the network of the host, with meet.py."""
    return f"podman run --rm --network host {options} {' '.join(MEETS)} {store.image} {' '.join(command)}"


def launch(store: Store, pair: Sequence[Host], names: str, *options: str) -> Done:
    """Start a worker, and `launch` on the other host."""
    assert pair[1].run(start(store, f"-d {KEYS}", "worker")).code == 0
    return pair[0].run(start(store, KEYS, "launch", "--hosts", names, "-n 2 --ppn 1", *options, MEET))


def meet(store: Store, pair: Sequence[Host], *variables: str) -> str:
    """Run one command on both hosts, each with variables of its own; return what both said."""
    children = [host.start(start(store, given, MEET)) for host, given in zip(pair, variables, strict=True)]
    ended = [child.finish(150) for child in children]
    assert [end.code for end in ended] == [0, 0]
    return "".join(end.out for end in ended)


def master(address: str, number: int) -> str:
    """Write the variables of a node for torchrun."""
    return f"-e PET_NNODES=2 -e PET_NODE_RANK={number} -e PET_MASTER_ADDR={address}"


def elastic(address: str) -> str:
    """Write the variables of an elastic rendezvous, the same for all nodes."""
    return f"-e PET_NNODES=2 -e PET_RDZV_ENDPOINT={address}:29400"


def shown() -> list[str]:
    """Return the lines of the page for two machines; both hosts have the image already."""
    lines = next(lines for _, lines in page("docs/mpi.md").blocks if "ssh node1" in "\n".join(lines))
    return [line for line in lines if "docker load" not in line]


def test_the_page_trains(store: Store, pair: Sequence[Host]) -> None:
    pair[0].run("rm -r keys; ssh node1 rm -r keys")
    lines = [line.replace("docker", "podman").replace("IMAGE", store.image) for line in shown()]

    done = pair[0].run("set -e\n" + "\n".join(lines), 180)

    assert done.code == 0
    assert re.findall(r"smoke: passed: world_size=(\d) backend=(\w+)", done.out) == [("2", "gloo")]


@pytest.fixture
def any_address(pair: Sequence[Host]) -> Iterator[None]:
    """Let programs bind addresses that a host does not have, as keepalived sets it."""
    for value in (1, 0):
        for host in pair:
            assert host.run(f"sysctl -q -w net.ipv4.ip_nonlocal_bind={value}").code == 0
        if value:
            yield


@pytest.mark.usefixtures("any_address")
def test_hosts_that_may_bind_any_address(store: Store, pair: Sequence[Host]) -> None:
    done = launch(store, pair, "10.77.0.10,10.77.0.11")

    assert done.code == 0
    assert places(done.out) == BOTH
    for endpoint in ("node0", "10.77.0.10"):
        assert sorted(places(meet(store, pair, elastic(endpoint), elastic(endpoint)))) == BOTH


@pytest.fixture
def two_networks(pair: Sequence[Host]) -> Iterator[Sequence[Host]]:
    """Give both hosts a second network with the default route, on which they do not meet, as virtual machines have."""
    for host in pair:
        assert host.run(f"set -e\n{NAT_NETWORK}").code == 0
    yield pair
    for host in pair:
        assert host.run("ip link del nat0 && ip route add default via 10.77.0.19").code == 0


def test_launch_takes_the_network_on_which_hosts_meet(store: Store, two_networks: Sequence[Host]) -> None:
    done = launch(store, two_networks, "node0,node1")

    assert done.code == 0
    assert places(done.out) == BOTH
    assert done.err.count("gloo on eth0") == 2


@pytest.mark.parametrize("variable", ["", " -e GLOO_SOCKET_IFNAME=eth0"])
def test_a_late_name_and_two_networks(store: Store, two_networks: Sequence[Host], variable: str) -> None:
    """Node 1 learns the name of the other while it waits, and chooses the interface then."""
    first, second = two_networks
    second.write_hosts()
    late = second.start(start(store, f"--name late {master('node0', 1)}", MEET))
    assert late.said("waiting until node0 resolves")
    name = "node0" if variable else first.address
    job = first.start(start(store, master(name, 0) + variable, MEET))

    assert second.run(f"podman exec --user 0 late sh -c 'echo {first.address} node0 >> /etc/hosts'").code == 0

    second.write_hosts(f"{first.address}\tnode0")
    assert [child.finish().code for child in (job, late)] == [0, 0]
    assert places(job.text) == BOTH
    assert "gloo on eth0" in late.text


@pytest.mark.parametrize(
    ("port", "options", "command", "remedy"),
    [
        (2222, KEYS, "worker", "export MULTINODE_SSH_PORT=N on every node"),
        (29500, "-e PET_NNODES=2 -e PET_NODE_RANK=0 -e PET_MASTER_ADDR=node0", MEET, "export PET_MASTER_PORT=29501"),
    ],
)
def test_a_port_of_the_host_that_is_in_use(
    store: Store, pair: Sequence[Host], port: int, options: str, command: str, remedy: str
) -> None:
    listen = f"import socket, time; s = socket.create_server(('', {port})); print('up', flush=True); time.sleep(600)"
    assert pair[0].start(f'exec python3 -c "{listen}"').said("up")

    done = pair[0].run(start(store, options, command))

    assert done.code not in (0, 1)
    assert f": {port}\n  try: {remedy}" in done.err


def test_a_firewall_that_lets_only_ssh_of_the_host_in(store: Store, pair: Sequence[Host]) -> None:
    rules = ["-i lo -j ACCEPT", "-p tcp --dport 22 -j ACCEPT", "-p tcp --dport 2222 -j DROP"]
    assert pair[1].run(" && ".join(f"iptables -A INPUT {rule}" for rule in rules)).code == 0
    try:
        done = launch(store, pair, "node0,node1", "--timeout 5")
    finally:
        pair[1].run("iptables -F INPUT")

    assert done.code == 1
    assert "not every host answered within 5 s: node1 (ssh does not answer)" in done.err
    assert "reachable on port 2222" in done.err
