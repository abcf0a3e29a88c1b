"""Machines with nothing but ssh and podman: network namespaces on a bridge, each with a name, a home and an engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.pods import write_limits
from tests.support.containers import Started
from tests.support.harness import Done, call

ADDRESS = "10.77.0.1{}"
NEEDED = ("podman", "ip", "iptables", "nsenter", "unshare", "ssh", "scp")
# Debian's installer writes the name of a machine so, and whoever has no name server adds the others (hosts(5)).
ALONE = "127.0.0.1\tlocalhost\n127.0.1.1\tnode{}\n"
# Docker's own bridge has the same address on every machine. What an engine keeps in memory is one machine's; there is
# no name server.
SETUP = """\
mount --make-rprivate /
hostname {name}
ip link set lo up
ip address add {address}/24 dev eth0 && ip link set eth0 up && ip route add default via {gateway}
ip link add docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && mkdir /run/sshd
for file in hosts passwd resolv.conf; do mount --bind {place}/$file /etc/$file; done
mount --bind {place}/home /root
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{place}/images"
runroot = "/run/images"
[storage.options]
additionalimagestores = ["{store}"]
"""
SSHD = """\
Port 22
HostKey {place}/home/.ssh/id_ed25519
AuthorizedKeysFile {place}/home/.ssh/id_ed25519.pub
StrictModes no
UsePAM no
PermitRootLogin yes
Subsystem sftp internal-sftp
PidFile none
SetEnv {environ}
"""
SSH = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"


def missing() -> str | None:
    """Return what is not here and has to be for hosts; None where all of it is."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else None


@dataclass
class Store:
    """The images of all hosts, and one of them as a directory: that of the session, whose sshd the hosts have."""

    directory: Path
    image: str
    root: str = ""

    def podman(self, *words: str, seconds: float = 280) -> Done:
        """Run podman on the store."""
        where = ["--root", f"{self.directory}/images", "--runroot", str(self.state)]
        return call(["podman", *where, *words], seconds=seconds)

    @property
    def state(self) -> Path:
        """Return where podman keeps what a restart of the machine ends: a path of 50 characters at most."""
        return Path("/run") / self.directory.name


@contextmanager
def open_store(directory: Path, image: str) -> Iterator[Store]:
    """Hand an image over from Docker to podman, in a store of its own."""
    store = Store(directory, f"docker.io/library/{image}")
    try:
        assert store.podman("pull", "--quiet", f"docker-daemon:{image}").code == 0
        store.root = store.podman("image", "mount", store.image).out.strip()
        yield store
    finally:
        store.podman("image", "unmount", "--all")
        store.podman("rmi", "--all", "--force")
        shutil.rmtree(store.state, ignore_errors=True)


@dataclass
class Host:
    """A machine, its place for files, and the process that holds its namespaces."""

    name: str
    address: str
    place: Path
    holder: subprocess.Popen[bytes]
    environ: Mapping[str, str]
    started: list[Started] = field(default_factory=list)

    def command(self, script: str) -> list[str]:
        """Write the command line of a line of shell that is typed at home on this host."""
        enter = ["nsenter", f"--target={self.holder.pid}", "--net", "--uts", "--mount"]
        variables = [f"{name}={value}" for name, value in self.environ.items()]
        return [*enter, "env", *variables, "bash", "-c", f"cd\n{script}"]

    def run(self, script: str, seconds: float = 90) -> Done:
        """Run a line of shell on this host."""
        return call(self.command(script), seconds=seconds)

    def start(self, script: str) -> Started:
        """Start a line of shell on this host and go on; it is ended with the host."""
        self.started.append(Started(self.command(script)))
        return self.started[-1]

    def write_hosts(self, *lines: str) -> None:
        """Write /etc/hosts as Debian does, and further lines."""
        (self.place / "hosts").write_text(ALONE.format(self.name[-1]) + "".join(f"{line}\n" for line in lines))

    def clear(self) -> None:
        """End the containers of this host and what was started there."""
        self.run("podman ps --all; podman rm --all --force --time 0")
        for child in self.started:
            child.end()
        self.started.clear()


def hold(*kinds: str) -> subprocess.Popen[bytes]:
    """Start a process that holds new namespaces."""
    return subprocess.Popen(["unshare", *(f"--{kind}" for kind in kinds), "sh", "-c", "echo && exec sleep infinity"],
                            stdout=subprocess.PIPE)  # fmt: skip


def write_files(number: int, place: Path, store: Store) -> dict[str, str]:
    """Write the files of a host; return the variables with which its engine runs."""
    (place / "home" / ".ssh").mkdir(parents=True)
    (place / "home" / ".ssh" / "config").write_text(SSH)
    for key in ("id_ed25519", "id_ed25519.pub"):
        shutil.copy(place.parent / key, place / "home" / ".ssh")
    (place / "resolv.conf").touch()
    (place / "passwd").write_text("root:x:0:0::/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n")
    (place / "storage.conf").write_text(STORAGE.format(place=place, store=f"{store.directory}/images"))
    environ = {
        "HOME": "/root", "PATH": os.environ["PATH"], "CONTAINERS_CONF": str(write_limits(place)),
        "CONTAINERS_STORAGE_CONF": f"{place}/storage.conf",
    }  # fmt: skip
    words = " ".join(f"{name}={value}" for name, value in environ.items() if name != "HOME")
    (place / "sshd_config").write_text(SSHD.format(place=place, environ=words))
    return environ


def make_host(number: int, switch: int, store: Store, directory: Path) -> Host:
    """Make a host, and connect it to the switch."""
    place = directory / f"node{number}"
    environ = write_files(number, place, store)
    host = Host(f"node{number}", ADDRESS.format(number), place, hold("net", "uts", "mount"), environ)
    host.write_hosts()
    assert host.holder.stdout and host.holder.stdout.readline()
    connect(host, switch, "eth0")
    values = {"name": host.name, "address": host.address, "gateway": ADDRESS.format(9), "place": place}
    assert host.run(f"set -e\n{SETUP.format(**values)}").code == 0
    return host


def serve(host: Host, store: Store) -> Started:
    """Start the ssh server of a host: the image's, which needs its own loader and libraries."""
    loader = f"{store.root}/lib64/ld-linux-x86-64.so.2 --library-path {store.root}/usr/lib/x86_64-linux-gnu"
    server = Started(host.command(f"exec {loader} {store.root}/usr/sbin/sshd -D -r -e -f {host.place}/sshd_config"))
    assert server.said("listening on 0.0.0.0 port 22")
    return server


def connect(host: Host, switch: int, interface: str) -> None:
    """Connect an interface of a host to the switch."""
    port = f"{host.name}-{interface}"
    ends = [f"netns {host.holder.pid}", "type", "veth", "peer", "name", port, f"netns {switch}"]
    assert call(["ip", "link", "add", interface, *" ".join(ends).split()]).code == 0
    assert call(["nsenter", f"--target={switch}", "--net", "ip", "link", "set", port, "master", "br0", "up"]).code == 0


@contextmanager
def up(store: Store, directory: Path, count: int = 2) -> Iterator[Sequence[Host]]:
    """Lend hosts that know each other by name, and remove them in the end."""
    call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{directory}/id_ed25519"])
    with ExitStack() as stack:
        switch = hold("net")
        stack.callback(end, switch)
        assert switch.stdout and switch.stdout.readline()
        bridge = "ip link add br0 type bridge && ip link set br0 up"
        assert call(["nsenter", f"--target={switch.pid}", "--net", "sh", "-c", bridge]).code == 0
        hosts: list[Host] = []
        for number in range(count):
            hosts.append(make_host(number, switch.pid, store, directory))
            stack.callback(end, hosts[-1].holder)
            stack.callback(hosts[-1].clear)
            stack.callback(serve(hosts[-1], store).end)
        for host in hosts:
            host.write_hosts(*(f"{other.address}\t{other.name}" for other in hosts if other is not host))
        yield hosts


def end(holder: subprocess.Popen[bytes]) -> None:
    """End a process that holds namespaces; they go with their last process."""
    holder.kill()
    holder.communicate(timeout=10)
