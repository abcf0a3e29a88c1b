"""The agent of torchrun: its variables, and the command by which it is started."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from multinode_image.errors import EXIT_USER, Refusal
from multinode_image.world import torchrun
from multinode_image.world.model import World
from multinode_image.world.torchrun import (
    find_torchrun,
    meet_here,
    prepare_restarts,
    set_meeting_variables,
    set_unread_variables,
)
from tests.support.starts import NODE0, network

AGENT = World("torchrun", "", (2, 2), 1, 1, master="there", port=29500)
RANKS = World("mpi", "", (2, 2), None, 1, 0, 0, 2, "there", 29500)
ENDPOINT = {"PET_RDZV_ENDPOINT": "10.77.0.1:29400"}
HERE, TAKEN = NODE0, 29501


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    with network(NODE0, {TAKEN: OSError(errno.EADDRINUSE, "Address already in use")}):
        yield


@pytest.mark.parametrize(
    ("world", "environ", "given"),
    [
        (AGENT, {}, {}),
        (AGENT._replace(nodes=(1, 1), job="qa-7"), ENDPOINT, {}),
        (RANKS._replace(job="qa-7"), {}, {}),
        (AGENT._replace(job="qa-7"), {}, {"PET_RDZV_ID": "qa-7"}),
        (AGENT._replace(job="AWS=6fb5/c6\u0192"), {}, {"PET_RDZV_ID": "AWS-6fb5-c6-"}),
        (AGENT._replace(job="mine"), {"PET_RDZV_ID": "mine"}, {}),
        (AGENT, ENDPOINT, {"PET_LOCAL_ADDR": HERE}),
        (AGENT._replace(master="here"), ENDPOINT, {"PET_LOCAL_ADDR": HERE}),  # torchrun knows its own name
        (AGENT._replace(master=HERE), ENDPOINT, {"PET_LOCAL_ADDR": HERE, "PET_RDZV_CONF": "is_host=true"}),
        (
            AGENT._replace(master=HERE),
            {**ENDPOINT, "PET_RDZV_CONF": "read_timeout=90"},
            {"PET_LOCAL_ADDR": HERE, "PET_RDZV_CONF": "read_timeout=90,is_host=true"},
        ),
        (AGENT._replace(master=HERE, port=TAKEN), ENDPOINT, {"PET_LOCAL_ADDR": HERE}),
        (AGENT._replace(master=HERE), {**ENDPOINT, "PET_RDZV_CONF": "is_host=0"}, {"PET_LOCAL_ADDR": HERE}),
        (AGENT._replace(master=HERE), {**ENDPOINT, "PET_RDZV_BACKEND": "etcd-v2"}, {"PET_LOCAL_ADDR": HERE}),
        (AGENT._replace(master="others"), ENDPOINT, {"PET_LOCAL_ADDR": HERE}),
        (AGENT._replace(master="pod"), {**ENDPOINT, "PET_RDZV_CONF": "is_host=0"}, {"PET_LOCAL_ADDR": HERE}),
        (AGENT._replace(master="pod"), {}, {}),  # rank 0 is host, whatever its name
        (AGENT._replace(master="pod"), ENDPOINT, None),
    ],
)
def test_what_torchrun_is_given_to_meet_by(world: World, environ: dict[str, str], given: dict[str, str] | None) -> None:
    if given is not None:
        assert {setting.name: setting.value for setting in set_meeting_variables(world, environ)} == given
        return
    with pytest.raises(Refusal, match="the endpoint is the name of several nodes") as caught:
        set_meeting_variables(world, environ)
    assert (caught.value.value, caught.value.code) == ("pod (10.77.0.1, 10.77.0.2)", EXIT_USER)


@pytest.mark.parametrize(("master", "address"), [(HERE, HERE), ("localname", "localname"), ("there", HERE)])
def test_the_host_of_several_networks_is_known_by_the_name_of_the_endpoint(
    master: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchrun, "has_several_networks", lambda: True)
    monkeypatch.setattr(torchrun, "is_here", lambda host: host in (HERE, "localname"))
    settings = set_meeting_variables(AGENT._replace(master=master), {**ENDPOINT, "PET_RDZV_CONF": "is_host=0"})

    assert {setting.name: setting.value for setting in settings} == {"PET_LOCAL_ADDR": address}


@pytest.mark.parametrize(
    ("environ", "nproc", "read"),
    [
        ({}, None, {}),
        ({}, 2, {"PET_NPROC_PER_NODE": "2"}),
        ({"PET_NPROC_PER_NODE": "gpu"}, 2, {"PET_NPROC_PER_NODE": "2"}),
        *(
            ({"PET_NPROC_PER_NODE": device}, None, {"PET_NPROC_PER_NODE": "auto"})
            for device in ("cpu", "gpu", "XPU", "privateuse1")
        ),
        ({"PET_NPROC_PER_NODE": "auto"}, None, {}),
        ({"PET_NPROC_PER_NODE": "cpus"}, None, {}),  # torchrun says that this is nothing
        ({"PET_NPROC_PER_NODE": "2"}, None, {}),
    ],
)
def test_a_typed_torchrun_reads_what_no_option_says(
    environ: dict[str, str], nproc: int | None, read: dict[str, str]
) -> None:
    assert {setting.name: setting.value for setting in set_unread_variables(environ, nproc)} == read


ONE_NODE, IN_A_POD = World("alone", "", local_size=2), {"KUBERNETES_SERVICE_HOST": "::1", "PET_NPROC_PER_NODE": "2"}
POD = AGENT._replace(local_size=2)
NEW_STORE, ALIKE = ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"), ("TORCH_ELASTIC_WORKER_IDENTICAL", "1")  # torch's own


@pytest.mark.parametrize(
    ("world", "environ", "settings"),
    [
        (ONE_NODE, {"PET_MAX_RESTARTS": "3"}, [NEW_STORE]),
        (ONE_NODE, {"PET_MAX_RESTARTS": "0"}, []),
        (ONE_NODE, {}, []),
        (ONE_NODE._replace(local_size=1), {"PET_MAX_RESTARTS": "3"}, []),
        (RANKS, {"PET_MAX_RESTARTS": "3"}, []),  # mpirun's ranks have no store of torchrun's
        (POD._replace(node_rank=None), {**IN_A_POD, "PET_RDZV_ENDPOINT": "m:7"}, [NEW_STORE]),
        # Agents that need not ask each other.
        (POD, IN_A_POD, [ALIKE]),
        (POD, {**IN_A_POD, "PET_MAX_RESTARTS": "1"}, [NEW_STORE, ALIKE]),
        (POD, {**IN_A_POD, "KUBERNETES_SERVICE_HOST": ""}, []),
        (POD, {**IN_A_POD, "PET_NPROC_PER_NODE": "auto"}, []),
        (POD._replace(local_size=1), IN_A_POD, []),  # --nproc 1 for this pod
        (POD._replace(launcher="torchrun-worker"), IN_A_POD, []),
    ],
)
def test_what_is_started_again_is_prepared_for_that(
    world: World, environ: dict[str, str], settings: list[tuple[str, str]]
) -> None:
    assert [(setting.name, setting.value) for setting in prepare_restarts(world, environ)] == settings


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/../front", "/{}", "{}/."])
def test_the_program_in_front_of_torchrun_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """It would find itself for ever, however PATH writes its directory."""
    for name in ("front", "behind"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "torchrun").touch(0o755)
    monkeypatch.setattr(torchrun, "FRONT", str(tmp_path / "front"))
    front = form.format(tmp_path / "front")

    assert find_torchrun({"PATH": f"{front}:{tmp_path}/behind"}) == f"{tmp_path}/behind/torchrun"
    with pytest.raises(Refusal, match="pip install torch"):
        find_torchrun({"PATH": front})


@pytest.mark.parametrize(
    ("torch", "options"),
    [
        ("2.3.1+cpu", "--standalone"),
        ("2.4.1", "--rdzv_backend static --master_addr 127.0.0.1 --master_port 29502"),
        ("2.5.0+cpu", "--standalone"),
    ],
)
def test_ranks_of_one_node_meet_without_a_name(monkeypatch: pytest.MonkeyPatch, torch: str, options: str) -> None:
    monkeypatch.setattr(torchrun, "is_free", lambda port: port > 29501)
    assert " ".join(meet_here(torch)) == options
