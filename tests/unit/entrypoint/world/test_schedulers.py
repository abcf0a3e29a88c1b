"""Schedulers that are no launchers of MPI: what they say of nodes, in variables and in files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.world.model import HERE
from entrypoint.world.schedulers import SAGEMAKER, list_hosts, read_files
from entrypoint.world.table import detect, read_world
from tests.support.launchers import left_by


@pytest.mark.parametrize(
    ("index", "main", "node_rank"),
    [("0", "0", 0), ("2", "0", 2), ("0", "2", 1), ("1", "2", 2), ("2", "2", 0), ("3", "2", 3)],
)
def test_the_main_node_of_a_batch_job_is_rank_0(index: str, main: str, node_rank: int) -> None:
    more = {"AWS_BATCH_JOB_NODE_INDEX": index, "AWS_BATCH_JOB_MAIN_NODE_INDEX": main}
    environ = {**left_by("aws-batch-node"), **more}
    world = read_world(environ, detect(environ), None)
    assert (world.node_rank, world.master) == (node_rank, HERE if node_rank == 0 else "10.0.2.163")


def test_all_nodes_of_a_batch_job_have_one_port() -> None:
    worlds = [read_world(left_by(name), detect(left_by(name)), None) for name in ("aws-batch-main", "aws-batch-node")]
    assert worlds[0].port == worlds[1].port
    assert worlds[0].job == worlds[1].job


@pytest.mark.parametrize(
    ("name", "more", "fact"),
    [
        ("aws-batch-node", {"AWS_BATCH_JOB_NODE_INDEX": "4"}, "index is not below"),
        ("aws-batch-node", {"AWS_BATCH_JOB_MAIN_NODE_INDEX": "4"}, "index is not below"),
        ("aws-batch-node", {"AWS_BATCH_JOB_NUM_NODES": "0"}, "index is not below"),
        ("aws-batch-node", {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": ""}, "no address of the main node"),
        ("sagemaker", {"SM_CURRENT_HOST": "algo-3"}, "does not have this one"),
        ("volcano", {"VC_TASK_INDEX": "2"}, "which of its tasks"),
    ],
)
def test_what_a_scheduler_does_not_say_is_refused(name: str, more: dict[str, str], fact: str) -> None:
    environ = {**left_by(name), **more}
    with pytest.raises(Refusal, match=fact):
        read_world(environ, detect(environ), None)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [('["algo-1", "algo-2"]', ["algo-1", "algo-2"]), ("a,b", ["a", "b"]), ("[]", []), ("", []), ("a", ["a"])],
)
def test_lists_of_hosts(text: str, hosts: list[str]) -> None:
    assert list_hosts(text) == hosts


@pytest.mark.parametrize(
    ("environ", "files", "found"),
    [
        ({}, {}, {}),
        ({"PBS_NODEFILE": "/n"}, {"/n": "a\na\nb\n"}, {"PBS_NUM_NODES": "2"}),
        ({"PBS_NODEFILE": "/n", "PBS_NUM_NODES": "3"}, {"/n": "a\n"}, {}),
        ({"PBS_NODEFILE": "/n"}, {}, {}),
        (
            {},
            {SAGEMAKER: '{"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"}'},
            {"SM_HOSTS": "algo-1,algo-2", "SM_CURRENT_HOST": "algo-2"},
        ),
        ({"SM_HOSTS": "a"}, {SAGEMAKER: "{}"}, {}),
        ({}, {SAGEMAKER: "[]"}, {}),
        ({}, {SAGEMAKER: "{"}, {}),
    ],
)
def test_what_files_say(environ: dict[str, str], files: dict[str, str], found: dict[str, str]) -> None:
    assert read_files(environ, files.get) == found


@given(st.text() | st.recursive(st.none() | st.text(), lambda each: st.dictionaries(st.text(), each)).map(repr))
def test_any_file_of_sagemaker_can_be_read(text: str) -> None:
    assert set(read_files({}, {SAGEMAKER: text}.get)) <= {"SM_HOSTS", "SM_CURRENT_HOST"}
