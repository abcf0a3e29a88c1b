"""An MPIJob as its operator starts it: sshd as the worker's command, files and variables in the launcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.harness import call

SCRIPT = "echo rank $RANK of $WORLD_SIZE on $(hostname)"


class Job(NamedTuple):
    """What differs between two MPIJobs: who they run as, where the Secret is mounted, and the dialect of the MPI."""

    user: str
    place: str
    mode: int
    hostfile: str
    environ: dict[str, str]


INTEL = Job(
    "1000", "/home/multinode/.ssh", 0o644, "{host}.job.ns.svc:1\n",
    {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", "I_MPI_PERHOST": "1",
     "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"},
)  # fmt: skip
OPEN_MPI = Job(
    "0", "/root/.ssh", 0o600, "{host}.job.ns.svc slots=1\n",
    {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
     "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots": "1"},
)  # fmt: skip


@pytest.fixture(params=[INTEL, OPEN_MPI], ids=["intel", "open mpi"])
def job(
    request: pytest.FixtureRequest,
    image: str,
    tmp_path: Path,
    docker_services: object,
    docker_compose_project_name: str,
) -> Iterator[list[str]]:
    """Start two workers as the operator does; give the options of the launcher."""
    each: Job = request.param
    secret, config = tmp_path / "secret", tmp_path / "config"
    secret.mkdir()
    config.mkdir()
    assert call(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(secret / "id_rsa")]).code == 0
    (secret / "authorized_keys").write_bytes((secret / "id_rsa.pub").read_bytes())
    for path in secret.iterdir():
        path.chmod(each.mode)
    hosts = ("mpi0", "mpi1")
    (config / "hostfile").write_text("".join(each.hostfile.format(host=host) for host in hosts))
    name = docker_compose_project_name
    options = ["--network", f"{name}_default", "--user", each.user, "--volume", f"{secret}:{each.place}:ro"]
    try:
        for host in hosts:
            start = ["docker", "run", "--detach", "--name", f"{name}-{host}", "--hostname", host, *options]
            start += ["--network-alias", f"{host}.job.ns.svc", "--env", "K_MPI_JOB_ROLE=worker"]
            assert call([*start, "--entrypoint", "/usr/sbin/sshd", image, "-De"]).code == 0
        variables = {"K_MPI_JOB_ROLE": "launcher", **each.environ}
        given = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
        yield ["--name", f"{name}-launcher", *options, "--volume", f"{config}:/etc/mpi:ro", *given]
    finally:
        for host in (*hosts, "launcher"):
            call(["docker", "logs", f"{name}-{host}"])
            call(["docker", "rm", "--force", f"{name}-{host}"])


def test_the_launcher_starts_a_rank_on_every_worker(job: list[str], image: str) -> None:
    done = call(["docker", "run", "--rm", *job, image, "launch", "bash", "-c", SCRIPT], seconds=120)

    assert done.code == 0
    assert set(done.out.splitlines()) == {"rank 0 of 2 on mpi0", "rank 1 of 2 on mpi1"}
