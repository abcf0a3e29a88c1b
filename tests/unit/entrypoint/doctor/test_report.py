"""The checks of doctor: a healthy container, and one fault at a time."""

from __future__ import annotations

import json

import pytest

from entrypoint.container.image import TORCH_INDEX, Stack
from entrypoint.container.limits import Limits
from entrypoint.container.processors import Machine
from entrypoint.doctor.report import as_json, as_text, decide_training, doctor, examine
from entrypoint.doctor.view import OK, WARNING, WRONG, Directory, Interface, Probe, View
from entrypoint.errors import Refusal
from entrypoint.explain import Decision
from entrypoint.launchers.world import World
from entrypoint.settings import Prepared
from entrypoint.training.job import DOCTOR, Job

GB = 1 << 30
SITE = "/usr/local/lib/python3.11/dist-packages"
MACHINE = Machine(frozenset(range(4)), 4, 4, 1, (frozenset(range(4)),), None, False)
ENVIRON = {"OMP_NUM_THREADS": "4", "GLOO_SOCKET_IFNAME": "eth0", "HOME": "/home/multinode"}
DECISION = Decision(
    World("alone", "no variables", local_size=1), MACHINE, Prepared(ENVIRON, {}, {}), [], [], {}, "gloo"
)
TCMALLOC, IOMP = "/usr/lib/libtcmalloc.so.4", "/usr/local/lib/libiomp5.so"
HEALTHY = View(
    Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, SITE), DECISION, None, "model name\t: Xeon\n",
    Limits(GB, 64 * GB, frozenset({"avx2", "amx_bf16"})),
    preloads=((TCMALLOC, f"{TCMALLOC}.5.9"), (IOMP, IOMP)),
    locked={"six": "1.17.0"}, installed={"six": ("1.17.0",), "extra": ("1.0",)},
    interfaces=(Interface("eth0", "up"), Interface("lo", "unknown")),
    directories=(Directory("/workspace/output", True, True, 9 * GB), Directory("/tmp", True, False, None)),
    user=(1000, 0), certificate=None,
    probe=Probe("3.11.2", ("/x", SITE), (f"{TCMALLOC}.5.9", IOMP), "2.13.0+cpu", f"{SITE}/torch/__init__.py", 4, "",
                "5.23.0"),
)  # fmt: skip
PROBE, LIMITS = HEALTHY.probe, HEALTHY.limits
NODES = DECISION._replace(world=World("torchrun", "", nodes=(2, 2), local_size=1))


def with_environ(**variables: str) -> Decision:
    return DECISION._replace(prepared=Prepared({**ENVIRON, **variables}, {}, {}))


def test_a_healthy_container() -> None:
    rows = examine(HEALTHY)
    assert {row.state for row in rows} == {OK}
    assert json.loads(as_json(rows))["healthy"] is True
    assert "try:" not in as_text(rows)


@pytest.mark.parametrize(
    ("change", "name", "state", "said"),
    [
        ({"refusal": Refusal("alone", "RANK=1", "unset RANK")}, "launcher", WRONG, "RANK=1"),
        ({"limits": LIMITS._replace(flags=frozenset({"avx2"}))}, "units", WARNING, "avx2; bf16 is emulated"),
        ({"probe": PROBE._replace(bfloat16=86.4, float32=165.2)}, "speed", WARNING, "86 GFLOP/s in bfloat16, 165 in"),
        ({"limits": LIMITS._replace(shm=64 << 20)}, "shm", WARNING, "64 MB"),
        ({"limits": LIMITS._replace(shm=65_536_000)}, "shm", WARNING, "62 MB"),
        ({"limits": LIMITS._replace(shm=65_535_999)}, "shm", WRONG, "62 MB"),
        ({"limits": LIMITS._replace(shm=1 << 20)}, "shm", WRONG, "1 MB"),
        ({"limits": LIMITS._replace(shm=None)}, "shm", WRONG, "0 MB"),
        ({"limits": LIMITS._replace(memory=GB)}, "memory", WARNING, "1.0 GB"),
        ({"limits": LIMITS._replace(memory=GB // 2)}, "memory", WRONG, "512 MB"),
        ({"decision": DECISION._replace(machine=MACHINE._replace(quota=0.5))}, "cores", WARNING, "quota 0.5"),
        ({"decision": with_environ(OMP_NUM_THREADS="64")}, "threads", WRONG, "OMP_NUM_THREADS=64 on 4"),
        ({"probe": PROBE._replace(threads=1)}, "threads", WARNING, "torch takes 1"),
        ({"installed": {}}, "packages", WRONG, "six missing instead of 1.17.0"),
        ({"installed": {"six": ("1.16.0",)}}, "packages", WRONG, "six 1.16.0 instead of 1.17.0"),
        ({"installed": {"six": ("1.17.0", "9")}}, "packages", WRONG, "six 1.17.0 and 9 instead of 1.17.0"),
        ({"probe": PROBE._replace(path=("/venv",))}, "packages", WRONG, f"does not read {SITE}"),
        ({"locked": {}}, "packages", WRONG, "constraints.txt"),
        ({"probe": PROBE._replace(python="3.12.1")}, "python", WRONG, "3.12.1 instead of 3.11"),
        ({"probe": PROBE._replace(file="/home/me/torch/__init__.py")}, "torch", WRONG, "/home/me/torch"),
        ({"probe": PROBE._replace(torch="2.12.0")}, "torch", WRONG, "2.12.0 instead of 2.13.0+cpu"),
        ({"probe": PROBE._replace(transformers="4.57.6")}, "transformers", WRONG, "4.57.6 instead of 5.23.0"),
        ({"probe": PROBE._replace(mapped=(IOMP,))}, "preloads", WRONG, TCMALLOC),
        ({"preloads": (), "probe": PROBE._replace(mapped=("/lib/libc.so.6",))}, "preloads", WARNING, "libiomp5"),
        ({"probe": PROBE._replace(error="RuntimeError: no")}, "backend", WRONG, "gloo: RuntimeError: no"),
        ({"decision": with_environ(GLOO_SOCKET_IFNAME="ib0")}, "network", WRONG, "GLOO_SOCKET_IFNAME=ib0"),
        ({"decision": with_environ(FI_TCP_IFACE="ib0")}, "network", WRONG, "FI_TCP_IFACE=ib0"),
        ({"decision": NODES, "interfaces": (Interface("lo", "unknown"),)}, "network", WRONG, "several nodes"),
        ({"certificate": "x"}, "certificate", WRONG, "PEM"),
        ({"directories": (Directory("/out", False, True, GB),)}, "directories", WRONG, "cannot be written: /out"),
        ({"directories": (Directory("/out", True, True, 1 << 20),)}, "directories", WARNING, "/out has 1 MB left"),
    ],
)
def test_a_fault_is_named_with_its_remedy(change: dict[str, object], name: str, state: str, said: str) -> None:
    rows = examine(HEALTHY._replace(**change))  # type: ignore[arg-type]
    found = [row for row in rows if row.state != OK]
    assert [(row.name, row.state) for row in found] == [(name, state)]
    assert said in found[0].value and found[0].remedy
    assert json.loads(as_json(rows))["healthy"] is (state != WRONG)
    assert f"try: {found[0].remedy}" in as_text(rows)


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (Probe(error="exit code 139"), "exit code 139"),
        (Probe("3.11.2", (SITE,), error="ImportError: a", broken="ImportError: b", importing="transformers"), ""),
    ],
)
def test_without_a_torch_nothing_is_said_of_the_one_that_belongs_there(probe: Probe, said: str) -> None:
    found = {row.name: row for row in examine(HEALTHY._replace(probe=probe)) if row.state != OK}
    assert found.keys() == {"torch", "transformers", "backend"}
    assert found["torch"].value == f"cannot be imported: {said or 'ImportError: a'}"
    assert found["transformers"].value == f"cannot be imported: {said or 'ImportError: b'}"
    assert not any(version in row.value for row in found.values() for version in ("2.13.0", "5.23.0"))


@pytest.mark.parametrize(
    ("importing", "remedy"),
    [
        ("torchvision", f"pip uninstall -y torchvision && pip install --index-url {TORCH_INDEX} torchvision"),
        ("torchaudio", f"pip uninstall -y torchaudio && pip install --index-url {TORCH_INDEX} torchaudio"),
        ("transformers.trainer", "correct what is named"),
    ],
)
def test_a_trainer_that_cannot_be_imported(importing: str, remedy: str) -> None:
    probe = PROBE._replace(transformers="", broken="RuntimeError: no nms", importing=importing)
    (found,) = (row for row in examine(HEALTHY._replace(probe=probe)) if row.state != OK)
    assert (found.name, found.state) == ("transformers", WRONG)
    assert found.value == f"{importing} cannot be imported: RuntimeError: no nms"
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("locked", "remedy"),
    [
        ({"six": "1.17.0"}, "six==1.17.0"),
        ({"torch": "2.13.0"}, "torch==2.13.0"),
        ({"six": "1", "torch": "2.13.0+cpu"}, f"--extra-index-url {TORCH_INDEX} six==1 torch==2.13.0+cpu"),
    ],
)
def test_packages_are_installed_again_from_where_they_are(locked: dict[str, str], remedy: str) -> None:
    (found,) = (row for row in examine(HEALTHY._replace(locked=locked, installed={})) if row.state != OK)
    assert found.remedy == f"pip install --no-deps --force-reinstall {remedy}"


@pytest.mark.parametrize(
    ("flags", "bfloat16", "said"),
    [
        ({"amx_bf16"}, 1400.0, "1400 GFLOP/s in bfloat16, 165 in float32, on one core"),
        ({"avx512_bf16"}, 133.0, "133 GFLOP/s"),
        ({"amx_bf16"}, 0.0, "not measured"),
        ({"avx2"}, 1.0, "1 GFLOP/s"),
    ],
)
def test_bfloat16_that_is_no_slower_or_said_to_be_emulated_is_no_fault(
    flags: set[str], bfloat16: float, said: str
) -> None:
    probe, limits = PROBE._replace(bfloat16=bfloat16, float32=165.0), LIMITS._replace(flags=frozenset(flags))
    rows = {row.name: row for row in examine(HEALTHY._replace(probe=probe, limits=limits))}
    assert rows["speed"].state == OK and said in rows["speed"].value


def test_a_virtual_environment_has_tools_of_its_own() -> None:
    locked = {"pip": "26.1.2", "setuptools": "83.0.0", "six": "1.17.0"}
    installed = {"pip": ("23.0.1",), "setuptools": ("66.1.1",), "six": ("1.17.0",)}
    rows = {row.name: row for row in examine(HEALTHY._replace(locked=locked, installed=installed))}
    assert (rows["packages"].state, rows["packages"].value) == (OK, "1 as locked")


def test_another_python_is_told_in_one_line() -> None:
    (found,) = (row for row in examine(HEALTHY._replace(installed={}, probe=PROBE._replace(path=("/venv",))))
                if row.state != OK)  # fmt: skip
    assert (found.name, found.remedy) == ("packages", "put /usr/local/bin and /usr/bin first in PATH")


def test_the_versions_that_are_imported_are_shown() -> None:
    rows = {row.name: row.value for row in examine(HEALTHY)}
    assert (rows["torch"], rows["transformers"]) == ("2.13.0+cpu", "5.23.0")


def test_ranks_of_an_mpijob_are_not_in_its_launcher() -> None:
    """They run on the workers, whatever one process here would be."""
    decision = with_environ(GLOO_SOCKET_IFNAME="lo")._replace(world=World("mpijob-launcher", "role", local_size=1))
    rows = {row.name: row for row in examine(HEALTHY._replace(decision=decision))}

    assert rows["launcher"].value == "mpijob-launcher (role), ranks run on the hosts of the hostfile: --explain smoke"
    assert rows["network"].value.endswith("ranks meet on the network of the hosts in the hostfile")
    assert {rows["launcher"].state, rows["network"].state} == {OK}


def test_other_words_are_refused() -> None:
    def decide(job: Job) -> Decision:
        raise AssertionError(job)

    with pytest.raises(Refusal, match="no such option"):
        doctor(Job(DOCTOR, DOCTOR, ["--jsno"]), decide, HEALTHY.stack, "/root")


@pytest.mark.parametrize(("launcher", "reported"), [("alone", True), ("mpijob-worker", False)])
def test_a_refused_training_is_reported_where_one_was_meant(launcher: str, reported: bool) -> None:
    def decide(job: Job) -> Decision:
        if job.trains:
            raise Refusal("no", "1", "unset RANK")
        return DECISION._replace(world=World(launcher, ""))

    decision, refusal = decide_training(Job(DOCTOR, DOCTOR, []), decide)
    assert decision.world.launcher == launcher
    assert (refusal is not None) is reported
