"""An MPIJob or a TrainJob as its operator starts it: sshd in the workers, files and variables in the launcher."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from images.layers.entrypoint_layer import UID
from tests.cluster.nodes import MEET, MEETS, Cluster, places
from tests.support.containers import detached
from tests.support.harness import call, env_options
from tests.support.mpi_operator import write_mounts


class Job(NamedTuple):
    """What differs between two jobs: who they run as, where the Secret is mounted, and the dialect of the MPI.

    roles: whether its pods are told what they are; those of a TrainJob are not.
    """

    user: str
    place: str
    mode: int
    hostfile: str
    environ: dict[str, str]
    roles: bool = True

    def role(self, name: str) -> list[str]:
        """Return the option that tells a pod what it is."""
        return ["--env", f"K_MPI_JOB_ROLE={name}"] if self.roles else []


INTEL = Job(
    str(UID), "/home/multinode/.ssh", 0o644, "{host}.job.ns.svc:1\n",
    {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", "I_MPI_PERHOST": "1",
     "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"},
)  # fmt: skip
OPEN_MPI = Job(
    "0", "/root/.ssh", 0o600, "{host}.job.ns.svc slots=1\n",
    {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
     "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots": "1"},
)  # fmt: skip
TRAINJOB = OPEN_MPI._replace(roles=False)


@pytest.fixture
def job(request: pytest.FixtureRequest, image: str, tmp_path: Path, nodes: Cluster) -> Iterator[list[str]]:
    """Start two workers as the operator does; give the options of the launcher."""
    mpi_job: Job = request.param
    hosts = ("mpi0", "mpi1")
    write_mounts(tmp_path, "".join(mpi_job.hostfile.format(host=host) for host in hosts), mpi_job.mode)
    name = nodes.network
    options = ["--user", mpi_job.user, "--volume", f"{tmp_path}/keys:{mpi_job.place}:ro", *MEETS]
    with ExitStack() as stack:
        for host in hosts:
            words = ["--hostname", host, "--network-alias", f"{host}.job.ns.svc", *options, *mpi_job.role("worker")]
            words += ["--entrypoint", "/usr/sbin/sshd", image, "-De"]
            stack.enter_context(detached(*words, name=f"{name}-{host}", network=name))
        volume = ["--volume", f"{tmp_path}/config:/etc/mpi:ro"]
        yield ["--network", name, *options, *volume, *mpi_job.role("launcher"), *env_options(mpi_job.environ)]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(INTEL, id="intel"),
        pytest.param(OPEN_MPI, id="open mpi", marks=pytest.mark.slow),
        pytest.param(TRAINJOB, id="trainjob", marks=pytest.mark.slow),
    ],
    indirect=True,
)
def test_the_launcher_starts_a_rank_on_every_worker(job: list[str], image: str) -> None:
    done = call(["docker", "run", "--rm", *job, image, MEET])

    assert done.code == 0
    assert places(done.out) == ["mpi0 0/1", "mpi1 0/1"]
