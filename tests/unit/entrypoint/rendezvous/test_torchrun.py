"""What torchrun is given to meet by, and for whom it waits."""

from __future__ import annotations

import pytest

from entrypoint.errors import USER, Refusal
from entrypoint.rendezvous import torchrun as rendezvous
from entrypoint.rendezvous.torchrun import check_way, describe_meeting, describe_wait, name_run
from entrypoint.world.model import World

AGENT = World("torchrun", "", (2, 2), 1, 1, master="there", port=29500)
STATIC = World("torchrun", "", (2, 2), 0, 1, master="m", port=29500)
ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
ENDPOINT = {"PET_RDZV_ENDPOINT": "10.77.0.1:29400"}
TAKEN = 29501
# Of names: those of this node, and those of others.
ADDRESSES = {
    "10.77.0.1": (["10.77.0.1"], []),
    "pod": (["10.77.0.1"], ["10.77.0.2"]),
    "two-networks": (["10.77.0.1", "10.78.0.1"], []),
    "others": ([], ["10.77.0.2", "10.77.0.3"]),
    "here": (["10.77.0.1"], ["10.77.0.2"]),
}


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "is_free", lambda port: port != TAKEN)
    monkeypatch.setattr(rendezvous, "is_here", lambda name: name in ("here", "10.77.0.1"))
    monkeypatch.setattr(rendezvous, "own_address", lambda name: None if name == "apart" else "10.77.0.1")
    monkeypatch.setattr(rendezvous, "split_addresses", lambda name: ADDRESSES.get(name, ([], ["10.77.0.9"])))
    monkeypatch.setattr("socket.gethostname", lambda: "here")


@pytest.mark.parametrize(
    ("world", "environ", "found"),
    [
        (AGENT, {}, {}),
        (AGENT._replace(job="qa-7"), {}, {"PET_RDZV_ID": "qa-7"}),
        (AGENT._replace(job="mine"), {"PET_RDZV_ID": "mine"}, {}),
        (AGENT, ENDPOINT, {"PET_LOCAL_ADDR": "10.77.0.1"}),
        (AGENT, {**ENDPOINT, "PET_LOCAL_ADDR": "10.77.0.9"}, {}),
        (AGENT._replace(master="apart"), ENDPOINT, {}),
        (AGENT._replace(master="here"), ENDPOINT, {"PET_LOCAL_ADDR": "10.77.0.1"}),
        (
            AGENT._replace(master="10.77.0.1"),
            ENDPOINT,
            {"PET_LOCAL_ADDR": "10.77.0.1", "PET_RDZV_CONF": "is_host=true"},
        ),
        (
            AGENT._replace(master="10.77.0.1"),
            {**ENDPOINT, "PET_RDZV_CONF": "read_timeout=90"},
            {"PET_LOCAL_ADDR": "10.77.0.1", "PET_RDZV_CONF": "read_timeout=90,is_host=true"},
        ),
        (AGENT._replace(master="10.77.0.1", port=TAKEN), ENDPOINT, {"PET_LOCAL_ADDR": "10.77.0.1"}),
        (
            AGENT._replace(master="10.77.0.1"),
            {**ENDPOINT, "PET_RDZV_CONF": "is_host=0"},
            {"PET_LOCAL_ADDR": "10.77.0.1"},
        ),
        (
            AGENT._replace(master="10.77.0.1"),
            {**ENDPOINT, "PET_RDZV_BACKEND": "etcd-v2"},
            {"PET_LOCAL_ADDR": "10.77.0.1"},
        ),
    ],
)
def test_what_torchrun_is_given_to_meet_by(world: World, environ: dict[str, str], found: dict[str, str]) -> None:
    assert {each.name: each.value for each in describe_meeting(world, environ)} == found


@pytest.mark.parametrize(
    ("environ", "refused"),
    [
        ({"PET_RDZV_BACKEND": "c10d"}, True),
        ({"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": ""}, True),
        ({"PET_RDZV_BACKEND": "etcd-v2"}, True),
        ({"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "there:29400"}, False),
        ({"PET_RDZV_BACKEND": "static"}, False),
        ({"PET_RDZV_BACKEND": ""}, False),
        ({}, False),
    ],
)
def test_a_master_is_no_endpoint(environ: dict[str, str], refused: bool) -> None:
    if not refused:
        check_way(AGENT, environ)
        return
    with pytest.raises(Refusal, match="meets at an endpoint, and does not read a master: PET_RDZV_BACKEND") as caught:
        check_way(AGENT, environ)
    assert caught.value.code == USER
    assert "unset PET_RDZV_BACKEND, or export PET_RDZV_ENDPOINT=there:29400 " in caught.value.remedy


@pytest.mark.parametrize(
    ("world", "more", "refused"),
    [
        (AGENT._replace(master="pod"), {}, True),
        (AGENT._replace(master="pod", port=TAKEN), {}, True),
        (AGENT._replace(master="two-networks"), {}, False),
        (AGENT._replace(master="others"), {}, False),
        (AGENT._replace(master="here"), {}, False),  # torchrun itself takes a node of that name for the host
        (AGENT._replace(master="pod"), {"PET_RDZV_BACKEND": "etcd-v2"}, False),
        (AGENT._replace(master="pod"), {"PET_RDZV_CONF": "is_host=0"}, False),
        (AGENT._replace(master="pod"), {"PET_RDZV_ENDPOINT": ""}, False),  # rank 0 is host, whatever its name
    ],
)
def test_an_endpoint_of_several_nodes_is_refused(world: World, more: dict[str, str], refused: bool) -> None:
    environ = {**ENDPOINT, **more}
    if not refused:
        describe_meeting(world, environ)
        return
    with pytest.raises(Refusal, match="the endpoint is the name of several nodes") as caught:
        describe_meeting(world, environ)
    assert (caught.value.value, caught.value.code) == ("pod (10.77.0.1, 10.77.0.2)", USER)
    assert "headless service" in caught.value.remedy


def test_the_name_of_a_run_has_no_separators() -> None:
    assert name_run("AWS_BATCH_JOB_ID=6fb5/c6\u0192") == "AWS-BATCH-JOB-ID-6fb5-c6-"


@pytest.mark.parametrize(
    ("world", "environ", "said"),
    [
        (STATIC, {}, "waiting for 2 nodes at m:29500, 900 s at most"),
        (STATIC, {"PET_RDZV_CONF": "timeout=20"}, "waiting for 2 nodes at m:29500, 20 s at most"),
        (
            STATIC._replace(node_rank=1),
            {},
            "waiting for the master at m:29500, and then for 2 nodes, 900 s at most for each",
        ),
        (STATIC._replace(nodes=(1, 4)), ELASTIC, "waiting for 1 to 4 nodes at m:29500, 600 s at most"),
        (
            STATIC,
            {**ELASTIC, "PET_RDZV_CONF": "join_timeout=9,is_host=1"},
            "waiting for 2 nodes at m:29500, 9 s at most",
        ),
        (STATIC, {**ELASTIC, "PET_RDZV_BACKEND": "etcd"}, ""),
        (STATIC._replace(nodes=(1, 1)), {}, ""),
        (STATIC._replace(launcher="mpi"), {}, ""),
    ],
)
def test_how_long_torchrun_waits_for_its_nodes(world: World, environ: dict[str, str], said: str) -> None:
    assert describe_wait(world, environ) == said
