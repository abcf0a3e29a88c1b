"""Ranks of MPI: whose size counts, and what only the ranks of one mpirun share."""

from __future__ import annotations

import itertools

import pytest

from entrypoint.errors import Refusal
from entrypoint.world.mpi import find_job, read_proxy
from entrypoint.world.table import detect, read_world
from tests.support.launchers import left_by

OPEN = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
ONE = {"PMI_RANK": "0", "PMI_SIZE": "1"}


@pytest.mark.parametrize(
    ("environ", "kind", "size"),
    [
        (ONE, "mpi", 1),
        ({**ONE, **OPEN, "MASTER_ADDR": "a"}, "mpi", 4),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", **left_by("intel-mpi-1")}, "mpi", 2),
        ({**ONE, **left_by("slurm-one-task")}, "alone", None),
        ({**ONE, "MPI_LOCALNRANKS": "1", **left_by("slurm-one-task")}, "mpi", 1),
        ({**ONE, "FLUX_JOB_SIZE": "1"}, "alone", None),
        ({**ONE, **left_by("slurm-step")}, "slurm", 4),
        ({**ONE, **left_by("trainer-v2")}, "torchrun", None),
        ({**ONE, **left_by("mpijob-launcher-open")}, "mpi", 1),
    ],
)
def test_a_world_of_one_proves_nothing(environ: dict[str, str], kind: str, size: int | None) -> None:
    world = read_world(environ, detect(environ), None)
    assert (world.launcher, world.size) == (kind, size)


def test_a_process_alone_may_start_others() -> None:
    world = read_world(ONE, detect(ONE), 2)
    assert (world.launcher, world.rank, world.asked) == ("alone", None, "2")


@pytest.mark.parametrize("more", [OPEN, {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"}])
def test_two_places_that_differ_are_refused(more: dict[str, str]) -> None:
    environ = {**left_by("intel-mpi-1"), **more}
    with pytest.raises(Refusal, match="two launchers") as caught:
        read_world(environ, detect(environ), None)
    assert "PMI_RANK=1 PMI_SIZE=2" in caught.value.value
    assert "unset PMI_RANK PMI_SIZE" in caught.value.remedy


@pytest.mark.parametrize(
    ("left", "more", "job"),
    [
        (("intel-mpi-1",), {}, "I_MPI_HYDRA_UUID=18680000-7a56-82ca-c460-06002718c871"),
        (("slurm-batch", "intel-mpi-1"), {}, "I_MPI_HYDRA_UUID=18680000-7a56-82ca-c460-06002718c871"),
        (("slurm-batch", "mpich-1"), {}, "SLURM_JOB_ID=7"),
        (("open-mpi-1",), {"PMIX_NAMESPACE": "prterun-a-1@1"}, "PMIX_NAMESPACE=prterun-a-1@1"),
        ((), {"OMPI_MCA_ess_base_jobid": "1"}, "OMPI_MCA_ess_base_jobid=1"),
        ((), {"PALS_APID": "6a"}, "PALS_APID=6a"),
        ((), {"PMI_JOBID": "7.0"}, "PMI_JOBID=7.0"),
        (("mpich-1",), {}, ""),
    ],
)
def test_name_of_a_job(left: tuple[str, ...], more: dict[str, str], job: str) -> None:
    assert find_job({**left_by(*left), **more}) == job


def test_every_rank_of_a_job_finds_its_name() -> None:
    for one, other in (("intel-mpi-0", "intel-mpi-1"), ("intel-mpi-two-hosts-0", "intel-mpi-two-hosts-1")):
        assert find_job(left_by(one)) == find_job(left_by(other)) != ""


@pytest.mark.parametrize(
    ("environ", "remedy"),
    [
        (left_by("intel-mpi-two-hosts-0"), "mpirun -genv MASTER_ADDR node0"),
        ({**OPEN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "mpirun -x MASTER_ADDR=node0"),
        (left_by("flux"), "flux run --env=MASTER_ADDR="),
    ],
)
def test_the_remedy_is_that_of_the_launcher(environ: dict[str, str], remedy: str) -> None:
    with pytest.raises(Refusal, match="MASTER_ADDR is not set") as caught:
        read_world(environ, detect(environ), None)
    assert remedy in caught.value.remedy


PROXY = "/usr/bin/hydra_pmi_proxy\0--control-port\0node0:43943\0--rmk\0user\0"
TREE = {
    "/proc/self/status": "Name:\tpython3\nPPid:\t12\n", "/proc/12/cmdline": "bash\0-c\0multinode smoke\0",
    "/proc/12/status": "PPid:\t11\n", "/proc/11/cmdline": PROXY, "/proc/11/status": "PPid:\t1\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "files", "found"),
    [
        (left_by("mpich-1"), TREE, {"HYDRA_CONTROL_PORT": "node0:43943"}),
        (left_by("intel-mpi-1"), TREE, {}),
        ({}, TREE, {}),
        (left_by("mpich-1"), {}, {}),
        (left_by("mpich-1"), {**TREE, "/proc/11/cmdline": "slurmstepd\0"}, {}),
        (left_by("mpich-1"), {**TREE, "/proc/11/cmdline": "x\0--control-port"}, {}),
        (left_by("mpich-1"), {"/proc/self/status": "PPid:\t0\n"}, {}),
        (left_by("mpich-1"), {"/proc/self/status": "PPid:"}, {}),
    ],
)
def test_the_proxy_of_mpich_knows_its_job(
    environ: dict[str, str], files: dict[str, str], found: dict[str, str]
) -> None:
    assert read_proxy(environ, files.get) == found


@pytest.mark.parametrize(("far", "is_found"), [(1, True), (8, True), (9, False)])
def test_some_shells_may_be_between_a_rank_and_its_proxy(far: int, is_found: bool) -> None:
    numbers = ["self", *(str(20 + each) for each in range(far))]
    files = {f"/proc/{one}/status": f"PPid:\t{other}\n" for one, other in itertools.pairwise(numbers)}
    found = read_proxy(left_by("mpich-1"), {**files, f"/proc/{numbers[-1]}/cmdline": PROXY}.get)
    assert found == ({"HYDRA_CONTROL_PORT": "node0:43943"} if is_found else {})
