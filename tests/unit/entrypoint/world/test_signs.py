"""Signs that a process should be one of many."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.world.model import World
from entrypoint.world.signs import check_alone, find_sign, warn_indexed
from entrypoint.world.table import detect, read_world
from tests.support.launchers import left_by


@pytest.mark.parametrize(
    ("left", "more", "name"),
    [
        ((), {}, None),
        ((), {"WORLD_SIZE": "1", "RANK": "0", "PET_NNODES": "1", "SLURM_NTASKS": "1"}, None),
        ((), {"MULTINODE_WORLD_SIZE": "1:4"}, None),
        (("slurm-one-task",), {}, None),
        (("slurm-one-task",), {"SLURM_NTASKS": "2", "SLURM_NNODES": "2"}, "SLURM_NTASKS"),
        (("slurm-one-task",), {"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}, None),
        (("pytorchjob-workers",), {}, "PET_NNODES"),
        ((), {"PET_NODE_RANK": "1"}, "PET_NODE_RANK"),
        ((), {"WORLD_SIZE": "2"}, "WORLD_SIZE"),
        ((), {"RANK": "1"}, "RANK"),
        ((), {"RANK": "0", "MASTER_ADDR": "job-0.job"}, "RANK"),
        ((), {"RANK": "0", "MASTER_ADDR": "localhost"}, None),
        ((), {"RANK": "0", "MASTER_ADDR": "job-0.job", "WORLD_SIZE": "1"}, None),
        ((), {"LOCAL_RANK": "1"}, "LOCAL_RANK"),
        ((), {"RANK": "0"}, None),
        ((), {"RANK": "0", "MASTER_ADDR": ""}, None),
        ((), {"PMI_RANK": "1"}, "PMI_RANK"),
        (("slurm-batch",), {}, "SLURM_NTASKS"),
        ((), {"SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "0"}, "SLURM_JOB_NUM_NODES"),
        ((), {"NUM_NODES": "2"}, "NUM_NODES"),
        ((), {"NODE_RANK": "1"}, "NODE_RANK"),
        (("aws-batch-node",), {"AWS_BATCH_JOB_NUM_NODES": ""}, "AWS_BATCH_JOB_NODE_INDEX"),
        (("sagemaker",), {"SM_CURRENT_HOST": ""}, "SM_HOSTS"),
        (("tfjob",), {}, "TF_CONFIG"),
        ((), {"TF_CONFIG": '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}}'}, None),
        (("pbs",), {}, "PBS_NUM_NODES"),
        ((), {"PBS_VNODENUM": "1"}, "PBS_VNODENUM"),
        (("lsf",), {}, "LSB_MCPU_HOSTS"),
        ((), {"LSB_MCPU_HOSTS": "h1 8"}, None),
        ((), {"FLUX_JOB_SIZE": "2"}, "FLUX_JOB_SIZE"),
        ((), {"HOROVOD_RANK": "1"}, "HOROVOD_RANK"),
        ((), {"PMI_SIZE": "2"}, "PMI_SIZE"),
        ((), {"PMI_ID": "0", "PMI_PORT": "node0:39063", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}, "PMI_PORT"),
        ((), {"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_SIZE"),
        ((), {"MV2_COMM_WORLD_SIZE": "2"}, "MV2_COMM_WORLD_SIZE"),
        (("slurm-pmix",), {}, "PMIX_RANK"),
        (("prterun-0",), {}, "PRTE_LAUNCHED"),
        (("prterun-1",), {}, "PMIX_RANK"),
    ],
)
def test_a_process_that_was_meant_to_be_one_of_many_is_not_left_alone(
    left: tuple[str, ...], more: dict[str, str], name: str | None
) -> None:
    environ = {**left_by(*left), **more}
    sign = find_sign(environ)
    assert (sign.name if sign else None) == name
    world = read_world(environ, detect(environ), None)
    if name is None:
        check_alone(environ, world)
        return
    with pytest.raises(Refusal, match="alone"):
        check_alone(environ, world)


@pytest.mark.parametrize(
    ("environ", "remedy"),
    [
        (left_by("pytorchjob-workers"), "add a Master replica"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, "export PET_MASTER_ADDR"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "1"}, "export PET_MASTER_ADDR"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": " "}, "add a Master replica"),
        ({"PET_NNODES": "2", "JOB_COMPLETION_INDEX": "0"}, "export PET_MASTER_ADDR"),
        ({"PET_NNODES": "$(N)"}, "define N above it in env of the pod"),
    ],
)
def test_a_node_with_a_number_lacks_a_master(environ: dict[str, str], remedy: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_alone(environ, World("alone", ""))
    assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("environ", "fact"),
    [
        ({"PET_NNODES": "$(N)"}, "PET_NNODES is neither a number nor a range"),
        ({"PET_NNODES": "2x"}, "PET_NNODES is neither a number nor a range"),
        ({"PET_NNODES": "2:x"}, "PET_NNODES is neither a number nor a range"),
        ({"PET_NNODES": "4:1"}, "PET_NNODES is neither a number nor a range"),
        ({"PET_NNODES": "2:"}, "PET_NNODES is neither a number nor a range"),
        ({"WORLD_SIZE": "$(N)"}, "WORLD_SIZE is not a number"),
        ({"WORLD_SIZE": "2x"}, "WORLD_SIZE is not a number"),
        ({"RANK": "$(N)"}, "RANK is not a number"),
        ({"NUM_NODES": "two", "SLURM_PROCID": "x"}, None),
        ({"RANK": "-1", "LOCAL_RANK": "-1", "WORLD_SIZE": "-1"}, None),
        ({"PMI_RANK": "0", "PMI_SIZE": "1", "WORLD_SIZE": "2x"}, "WORLD_SIZE is not a number"),
        ({"PET_NNODES": "1:4"}, "this process is alone, but was meant to be one of many"),
        ({"PET_NNODES": "1:1", "WORLD_SIZE": " "}, None),
        ({"PMI_PORT": "none", "TF_CONFIG": "none"}, None),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "2x"}, None),
    ],
)
def test_a_number_that_cannot_be_read_is_not_taken_for_none(environ: dict[str, str], fact: str | None) -> None:
    world = read_world(environ, detect(environ), None)
    if fact is None:
        check_alone(environ, world)
        return
    with pytest.raises(Refusal) as caught:
        check_alone(environ, world)
    assert (caught.value.fact, caught.value.code) == (fact, 2)


@pytest.mark.parametrize(
    ("left", "more", "nproc", "size", "word"),
    [
        (("intel-mpi-1",), {}, None, "2", None),
        (("intel-mpi-1",), {}, None, "1:4", None),
        (("intel-mpi-1",), {}, None, "3", "smaller"),
        (("intel-mpi-1",), {}, None, "3:4", "smaller"),
        (("intel-mpi-1",), {}, None, "1", "larger"),
        ((), {}, None, "2", "smaller"),
        ((), {}, 2, "2", None),
        ((), {}, 2, "1", "larger"),
        (("trainer-v2",), {}, None, "8", None),
        (("trainer-v2",), {}, None, "16", "smaller"),
        (("trainer-v2",), {}, None, "8:", None),
        (("trainer-v2",), {}, None, "2:", None),
        (("trainer-v2",), {}, None, "9:", "smaller"),
        (("pytorchjob-elastic-master",), {}, None, "4", None),
        (("pytorchjob-elastic-master",), {}, None, "9", "smaller"),
    ],
)
def test_a_world_of_another_size_than_insisted_on_is_refused(
    left: tuple[str, ...], more: dict[str, str], nproc: int | None, size: str, word: str | None
) -> None:
    environ = {**left_by(*left), **more, "MULTINODE_WORLD_SIZE": size}
    world = read_world(environ, detect(environ), nproc)
    if word is None:
        check_alone(environ, world)
        return
    with pytest.raises(Refusal, match=f"{word} than MULTINODE_WORLD_SIZE"):
        check_alone(environ, world)


@pytest.mark.parametrize("text", ["x", "2:x", "4:2", ":", "-1", "²", "2:²"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="neither a number above 0 nor a range"):
        check_alone({"MULTINODE_WORLD_SIZE": text}, World("alone", ""))


@pytest.mark.parametrize(("index", "notes"), [("", 0), ("0", 0), ("3", 1), ("x", 0)])
def test_a_pod_of_an_indexed_job_gets_a_note(index: str, notes: int) -> None:
    environ = {"JOB_COMPLETION_INDEX": index}
    assert len(warn_indexed(environ, World("alone", ""))) == notes
    assert warn_indexed(environ, World("torchrun", "")) == []
