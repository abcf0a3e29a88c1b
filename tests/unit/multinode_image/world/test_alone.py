"""A process that was meant to be one of many, and machines on which it was not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import EXIT_USER, Refusal
from multinode_image.world import alone, signs
from multinode_image.world.model import World
from multinode_image.world.table import complete_variables, detect
from tests.support.launchers import left_by, read_machines

ALONE = "this process is alone, but was meant to be one of many"
TYPED = {"PET_NPROC_PER_NODE": "2"}
MACHINES = read_machines()


@pytest.mark.parametrize("machine", MACHINES["alone"], ids=lambda machine: machine["machine"])
def test_who_is_alone_is_left_alone(machine: dict[str, Any]) -> None:
    environ = complete_variables(machine["variables"], lambda path: None)
    alone.check(environ, detect(environ))


@pytest.mark.parametrize("machine", MACHINES["several"], ids=lambda machine: machine["machine"])
def test_who_should_be_one_of_several_is_refused_by_any_variable_that_says_so(machine: dict[str, Any]) -> None:
    environ = machine["variables"]
    with pytest.raises(Refusal, match=ALONE) as caught:
        alone.check(environ, detect(environ))
    assert caught.value.value.startswith(f"{machine['name']}=")
    alone.check({**environ, "MULTINODE_WORLD_SIZE": "1"}, detect(environ))


@pytest.mark.parametrize(
    ("left", "more", "name"),
    [
        ((), {"WORLD_SIZE": "1", "RANK": "0", "PET_NNODES": "1", "SLURM_NTASKS": "1"}, None),
        ((), {"PMI_PORT": "none", "NUM_NODES": "two", "SLURM_PROCID": "x"}, None),
        (("slurm-one-task",), {"SLURM_JOB_NUM_NODES": "2", "ENVIRONMENT": "BATCH"}, None),  # srun -n1 in a batch script
        (("slurm-one-task",), {"SLURM_NTASKS": "2", "SLURM_NNODES": "2"}, "SLURM_NNODES"),  # sbatch within a step
        (("slurm-one-task",), {"SLURM_STEP_ID": "4294967291", "SLURM_NNODES": "2"}, "SLURM_NNODES"),
        (("slurm-one-task",), {"HOROVOD_SIZE": "2"}, "HOROVOD_SIZE"),
        # what was allocated, and not what was started there
        (
            ("slurm-one-task",),
            {
                "FLUX_JOB_NNODES": "2",
                "PBS_NUM_NODES": "2",
                "LSB_HOSTS": "a b",
                "NHOSTS": "2",
                "PRTE_LAUNCHED": "1",
                "OMPI_MCA_orte_num_nodes": "2",
            },
            None,
        ),
        ((), {"PET_NODE_RANK": "1"}, "PET_NODE_RANK"),
        ((), {"NUM_NODES": '"2"'}, "NUM_NODES"),
        ((), {"NODE_IPS": "'10.0.0.4 10.0.0.5'"}, "NODE_IPS"),
        ((), {"PET_NNODES": "1:4"}, "PET_NNODES"),
        ((), {"RANK": "0", "MASTER_ADDR": "job-0.job"}, "RANK"),
        ((), {"RANK": "0", "MASTER_ADDR": "localhost"}, None),
        ((), {"RANK": "0", "MASTER_ADDR": "job-0.job", "WORLD_SIZE": "1"}, None),
        ((), {"PMI_SIZE": "2"}, "PMI_SIZE"),
        ((), {"HOROVOD_SIZE": "2"}, "HOROVOD_SIZE"),
        ((), {"PBS_VNODENUM": "1"}, "PBS_VNODENUM"),
        ((), {"AWS_BATCH_JOB_NODE_INDEX": "1", "AWS_BATCH_JOB_NUM_NODES": "2"}, "AWS_BATCH_JOB_NUM_NODES"),
        ((), {"ABC_NODE_INDEX": "1", "ABC_MAIN_NODE_INDEX": "0"}, "ABC_NODE_INDEX"),
        ((), {"ABC_NODE_INDEX": "1", "XYZ_MAIN_NODE_INDEX": "0"}, None),
        ((), {"ABC_NODE_INDEX": "1", "ABC_MAIN_NODE_INDEX": " "}, None),
        (("sagemaker",), {"SM_CURRENT_HOST": ""}, "SM_HOSTS"),
        ((), {"LSB_MCPU_HOSTS": "h1 8"}, None),
        ((), {"MULTINODE_WORLD_SIZE": "1", "PET_NNODES": "2", "SLURM_NTASKS": "8"}, None),
        ((), {"MULTINODE_WORLD_SIZE": "1:4", "NUM_NODES": "2"}, "NUM_NODES"),
        ((), {"NUM_NODES": "1000"}, "NUM_NODES"),
        ((), {"NUM_NODES": "1001"}, None),
    ],
)
def test_a_process_that_was_meant_to_be_one_of_many_is_not_left_alone(
    left: tuple[str, ...], more: dict[str, str], name: str | None
) -> None:
    environ = {**left_by(*left), **more}
    world = detect(environ)
    if name is None:
        return alone.check(environ, world)
    with pytest.raises(Refusal) as caught:
        alone.check(environ, world)
    refusal = caught.value
    assert (refusal.fact, refusal.value, refusal.code) == (ALONE, f"{name}={environ[name]}", EXIT_USER)
    assert f"unset {name}" in refusal.remedy


@pytest.mark.parametrize(
    ("left", "nproc", "size", "word"),
    [
        ("intel-mpi-1", None, "2", None),
        ("intel-mpi-1", None, "3:4", "smaller"),
        ("intel-mpi-1", None, "1", "larger"),
        ("", None, "2", "smaller"),
        ("", 2, "2", None),
        ("", 2, "1", "larger"),
        ("trainer-v2", None, "8:", None),
        ("trainer-v2", None, "9:", "(?s)smaller.*PET_NNODES=3"),
        ("pytorchjob-elastic-master", None, "4", None),
        ("pytorchjob-elastic-master", None, "9", "smaller"),
        *(("", None, text, "neither") for text in ("x", "2:x", "4:2", ":", "-1", "\u00b2")),
    ],
)
def test_a_world_of_another_size_than_required_is_refused(
    left: str, nproc: int | None, size: str, word: str | None
) -> None:
    environ = {**left_by(*filter(None, [left])), "MULTINODE_WORLD_SIZE": size}
    world = detect(environ, nproc)
    if word is None:
        return alone.check(environ, world)
    with pytest.raises(Refusal, match=word):
        alone.check(environ, world)


@pytest.mark.parametrize(("index", "notes"), [("", 0), ("0", 0), ("3", 1), ("x", 0)])
def test_a_pod_of_an_indexed_job_gets_a_note(index: str, notes: int) -> None:
    environ = {"JOB_COMPLETION_INDEX": index}
    assert len(alone.warn_indexed(environ, detect(environ))) == notes
    assert alone.warn_indexed(environ, World("torchrun", "")) == []


PREFIXES = st.from_regex(r"[A-Z][A-Z0-9]{0,6}_", fullmatch=True).filter(lambda prefix: prefix != "LOCAL_")
KINDS = st.sampled_from(["WORKER", "TRAINER", "MACHINE", "SLICE"])
PLACES = st.sampled_from(["INDEX", "ID", "RANK"])


@given(PREFIXES, KINDS, PLACES, st.integers(2, 999), st.data())
def test_a_count_says_several_only_beside_the_number_of_one_below_it(
    prefix: str, kind: str, place: str, count: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, 2 * count))
    name = data.draw(st.sampled_from([f"{prefix}{kind}_NUM", f"{prefix}NUM_{kind}", f"{prefix}TOTAL_{kind}S"]))
    environ = {name: str(count), f"{prefix}{kind}_{place}": str(index)}

    assert signs.numbers_one(name, environ) == (index < count)
    assert not signs.numbers_one(name, {**environ, name: "1"})
    assert not signs.numbers_one(name, {name: str(count), f"X{prefix}{kind}_{place}": str(index)})
    assert not signs.numbers_one(f"LOCAL_{name}", {f"LOCAL_{other}": text for other, text in environ.items()})


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4) | st.sampled_from(["a:1", "b:1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cluster", "hosts", "index", "task", "x"]), inner, max_size=3)
    ),
)


@given(JSON)
def test_any_json_is_read_and_without_a_place_lists_nobody(value: object) -> None:
    text = json.dumps(value)

    assert not signs.lists_several(text) or ("cluster" in text or "hosts" in text)
    assert signs.lists_several(text[:-1]) is False or text[:-1].isdigit()


@pytest.mark.parametrize(
    ("place", "several"),
    [
        ({"current_host": "a"}, True), ({"rank": 1}, True),
        # servers that are asked for something
        ({"master": "a"}, False), ({"primary_host": "b"}, False), ({"index": 7}, False), ({"index": True}, False),
    ],
)  # fmt: skip
def test_hosts_of_which_this_is_none_are_servers(place: dict[str, object], several: bool) -> None:
    assert signs.lists_several(json.dumps({"hosts": ["a", "b"], **place})) is several


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6))
def test_several_hosts_are_told_from_one_that_is_repeated(hosts: list[str]) -> None:
    text = json.dumps({"cluster": {"worker": hosts}, "task": {"index": 0}})

    assert signs.lists_several(text) == (len(set(hosts)) > 1)
    assert not signs.lists_several(json.dumps({"cluster": {"worker": hosts}}))
