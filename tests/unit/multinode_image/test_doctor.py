"""The command `doctor`: a container that is well, and one fault at a time."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from multinode_image import timeouts
from multinode_image.commands import doctor as module
from multinode_image.commands.doctor import (
    CHECKS,
    OK,
    WARNING,
    WRONG,
    Finding,
    Probe,
    View,
    decide_training,
    doctor,
    examine,
    read_probe,
    run_probe,
    write_json,
    write_table,
)
from multinode_image.decide import Plan
from multinode_image.errors import Refusal
from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import TORCH_INDEX, WITHOUT_HOME, Stack
from multinode_image.machine.limits import Disk, Limits
from multinode_image.settings import Prepared
from multinode_image.tasks.command import DOCTOR, Command
from multinode_image.tasks.defaults import OUTPUT
from multinode_image.world.model import World
from tests.support.starts import make_facts, place

GB = 1 << 30
SITE = "/usr/local/lib/python3.11/dist-packages"
MACHINE = Machine(frozenset(range(4)), 4, 4, (frozenset(range(4)),), None, False)
LIMITS = Limits(GB, 64 * GB, frozenset({"avx2", "amx_bf16"}))
ENVIRON = {"OMP_NUM_THREADS": "4", "GLOO_SOCKET_IFNAME": "eth0", "HOME": "/home/me"}
STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, SITE)
PLAN = Plan(
    make_facts({}, STACK, machine=MACHINE, limits=LIMITS, mounts=("/out",)),
    place(World("alone", "no variables", local_size=1)), Prepared(ENVIRON, {}, {}), [], [], {},
)  # fmt: skip
PROBE = Probe("3.11.2", ("/x", SITE), "2.13.0+cpu", f"{SITE}/torch/__init__.py", "", "5.23.0")
HEALTHY = View(
    PLAN, None, PROBE, {"six": "1.17.0"}, {"six": "1.17.0", "pandas": "3.0.1"},
    {"six": ("1.17.0",), "pandas": ("3.0.1",)}, frozenset(),
    {"eth0": "up", "lo": "unknown"}, {path: Disk(path, 9 * GB, 9 * GB) for path in ("/out", "/tmp")}, None, None,
)  # fmt: skip


def environ(**variables: str) -> dict[str, Any]:
    return {"plan": replace(PLAN, prepared=Prepared({**ENVIRON, **variables}, {}, {}))}


def facts(**changes: Any) -> dict[str, Any]:
    return {"plan": replace(PLAN, facts=replace(PLAN.facts, **changes))}


def probe(**changes: Any) -> dict[str, Any]:
    return {"probe": replace(PROBE, **changes)}


def limits(**changes: Any) -> dict[str, Any]:
    return facts(limits=LIMITS._replace(**changes))


def installed(**releases: tuple[str, ...]) -> dict[str, Any]:
    return {"installed": {**HEALTHY.installed, **releases}}


LAUNCHER = {"plan": replace(PLAN, situation=place(World("mpijob-launcher", "role")))}
NODES = {"plan": replace(PLAN, situation=place(World("torchrun", "", nodes=(2, 2), local_size=1)))}


@pytest.mark.parametrize(
    ("change", "name", "state", "value", "remedy"),
    [
        ({"refusal": Refusal("alone", "RANK=1", "unset RANK")}, "launcher", WRONG, "RANK=1", "unset RANK"),
        (facts(machine=MACHINE._replace(quota=0.5)), "cores", WARNING, "quota 0.5", "--cpus"),
        (environ(OMP_NUM_THREADS="64"), "threads", WRONG, "OMP_NUM_THREADS=64", "unset OMP_NUM_THREADS"),
        (limits(memory=GB), "memory", WARNING, "1.0 GB", "--memory"),
        (limits(memory=(768 << 20) - 1), "memory", WRONG, "767 MB", "--memory"),
        (limits(memory=768 << 20), "memory", WARNING, "training a small model", "--memory"),
        (limits(memory=2 * GB - 1), "memory", WARNING, "training a small model", "--memory"),
        (limits(shm=64 << 20), "shm", WARNING, "64 MB", "--shm-size"),
        (limits(shm=65_535_999), "shm", WRONG, "62 MB", "--shm-size"),
        (limits(shm=65_536_000), "shm", WARNING, "62 MB", "--shm-size"),
        (limits(shm=None), "shm", WRONG, "0 MB", "--shm-size"),
        ({"processes": 255}, "processes", WARNING, "255", "--pids-limit"),
        ({"thread": Refusal("no thread", "clone3", "a newer engine")}, "processes", WRONG, "clone3", "newer engine"),
        (facts(notes=("PYTHONHOME=/x is left out",)), "variables", WARNING, "PYTHONHOME=/x", "unset"),
        ({"files": 1023}, "files", WARNING, "1023", "--ulimit nofile"),
        ({"installed": {}}, "packages", WRONG, "six missing instead of 1.17.0", "six==1.17.0"),
        ({"installed": {"six": ("1.17.0", "9")}}, "packages", WRONG, "six 1.17.0 and 9 instead", "six==1.17.0"),
        ({"installed": {}, "locked": {"torch": "2.1+cpu"}}, "packages", WRONG, "torch", f"{TORCH_INDEX} torch==2.1"),
        ({"installed": {}, "locked": {"torch": "2.1+cpu", "six": "1"}}, "packages", WRONG, "torch",
         f"{TORCH_INDEX} six==1 torch==2.1+cpu"),
        ({"installed": {}, "hidden": frozenset({"six"})}, "packages", WRONG, "six", WITHOUT_HOME),
        ({**probe(path=("/venv",)), "installed": {}}, "packages", WRONG, f"does not read {SITE}", "PATH"),
        ({"locked": {"six": "1.*"}, "installed": {"six": ("11.1",)}}, "packages", WRONG, "six 11.1", "six==1.*"),
        ({"locked": {}}, "packages", WRONG, "constraints.txt", "build.py"),
        (probe(file="/home/me/torch/__init__.py"), "torch", WRONG, "/home/me/torch", "PYTHONPATH"),
        (probe(transformers="", broken="E: no nms", importing="torchvision"), "transformers", WRONG,
         "torchvision cannot be imported: E: no nms", "correct what is named"),
        ({**probe(transformers="", broken="E"), "hidden": frozenset({"x"})}, "transformers", WRONG, "E", WITHOUT_HOME),
        ({**probe(file="/home/me/torch"), "hidden": frozenset({"torch"})}, "torch", WRONG, "/home/me", WITHOUT_HOME),
        (probe(error="RuntimeError: no"), "backend", WRONG, "gloo: RuntimeError: no", "named"),
        ({**NODES, "interfaces": {"lo": "unknown"}}, "network", WRONG, "several nodes", "--network"),
        ({"directories": {"/out": None}}, "directories", WRONG, "/out", "-v results:/out"),
        ({"directories": {"/out": Disk("/out", GB, (800 << 20) - 1)}}, "directories", WARNING, "799 MB left", "free"),
        ({"directories": {"/out": Disk("/out", GB, GB, 5, 0)}}, "directories", WARNING, "5 files at most", "inodes"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_remedy(
    change: dict[str, Any], name: str, state: str, value: str, remedy: str
) -> None:
    checks = examine(replace(HEALTHY, **change))

    faults = {key: check for key, check in checks.items() if check.state != OK}
    assert [*faults] == [name]
    assert faults[name].state == state and value in faults[name].value and remedy in faults[name].remedy
    assert json.loads(write_json(checks))["healthy"] is (state != WRONG)
    assert f"try: {faults[name].remedy}" in write_table(checks)


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ({}, "packages", "2 as the image was built"),
        (installed(extra=("1.0",), Other=("2",)), "packages", "; 2 added since: Other 2, extra 1.0"),
        (installed(pandas=("2.2.3",)), "packages", "1 as the image was built; 1 replaced since: pandas 2.2.3"),
        ({"installed": {"six": ("1.17.0",)}}, "packages", "1 as the image was built; 1 removed since: pandas"),
        (installed(pip=("26",)), "packages", "2 as the image was built"),
        (installed(**{f"more{number}": ("1",) for number in range(10, 30)}), "packages", "more19 1, ..."),
        ({"locked": {"numpy": "2.*"}, **installed(numpy=("2.9.1",))}, "packages", "1 added since: numpy 2.9.1"),
        ({"locked": {"pip": "26", "six": "1.17.0"}}, "packages", "2 as the image was built"),
        ({"built": {}}, "packages", "1 as the image holds them"),
        ({}, "processor", "bf16 by amx_bf16"),
        (limits(flags=frozenset({"avx2"})), "processor", "no unit computes in bf16"),
        ({}, "processes", "no limit"),
        ({"processes": 256, "files": 1024}, "files", "1024 open files"),
        *((facts(files={"/proc/cpuinfo": f"{name}\t: N1\n"}.get), "processor", "N1: bf16 by amx_bf16")
          for name in ("model name", "Model", "CPU part")),
        (environ(OMP_NUM_THREADS="4,64"), "threads", "OMP_NUM_THREADS=4,64, of"),
        (environ(OMP_NUM_THREADS=""), "threads", "OMP_NUM_THREADS=, of"),
        (NODES, "network", "ranks meet on eth0"),
        ({"directories": {"/out": Disk("/out", 800 << 20, 800 << 20)}}, "directories", "/out"),
        (LAUNCHER, "network", "ranks meet on the network of the hosts"),
        (environ(GLOO_SOCKET_IFNAME=""), "network", "ranks meet on what the library picks"),
        (LAUNCHER, "launcher", "hosts of the hostfile"),
        ({"interfaces": {"lo": "unknown", "eth0": "up"}}, "network", "lo unknown, eth0 up; ranks meet on"),
        ({"interfaces": {}}, "network", "no interface; ranks meet on"),
        (facts(machine=MACHINE._replace(quota=1.0)), "cores", "quota 1"),
        (limits(memory=2 * GB), "memory", "GB"),
        (limits(shm=(64 << 20) + 1), "shm", "64 MB"),
    ],
)  # fmt: skip
def test_what_is_no_fault(change: dict[str, Any], name: str, value: str) -> None:
    checks = examine(replace(HEALTHY, **change))

    assert {check.state for check in checks.values()} == {OK}
    assert value in checks[name].value


def test_every_check_has_a_row() -> None:
    tables = [mark.args[1] for test in (test_a_fault_is_named_with_its_remedy, test_what_is_no_fault)
              for mark in test.pytestmark]  # fmt: skip

    assert {row[1] for table in tables for row in table} == CHECKS.keys()


def test_all_of_a_container_that_is_well_is_said() -> None:
    assert write_table(examine(HEALTHY)).splitlines() == [
        "ok       launcher     alone (no variables), world 1",
        "ok       processor    unknown: bf16 by amx_bf16",
        "ok       cores        4 of 4 cores (processors 0-3, no quota)",
        "ok       threads      OMP_NUM_THREADS=4, of 4 core(s)",
        "ok       memory       64.0 GB",
        "ok       shm          1.0 GB",
        "ok       processes    no limit",
        "ok       files        no limit",
        "ok       variables    none is left out",
        "ok       packages     2 as the image was built",
        "ok       torch        2.13.0+cpu, Python 3.11.2",
        "ok       transformers 5.23.0",
        "ok       backend      gloo: a group of one rank has formed",
        "ok       network      eth0 up, lo unknown; ranks meet on eth0",
        f"ok       directories  can be written by uid {os.getuid()}, gid {os.getgid()}: /out /tmp",
    ]


def test_all_of_a_container_that_is_ill_is_said() -> None:
    plan = replace(PLAN, facts=replace(PLAN.facts, limits=Limits(None, 5, frozenset()), notes=("A is left out",)),
                   situation=place(World("torchrun", "m", nodes=(2, 2), local_size=1)))  # fmt: skip
    disks = {"/out": Disk("/out", GB, GB, 5, 0), "/tmp": Disk("/tmp", GB, 5)}
    ill = View(plan, None, Probe(error="E"), {"six": "1"}, {}, {}, frozenset(), {"lo": "up"}, disks, 5, 5)

    assert write_table(examine(ill)).splitlines() == [
        "ok       launcher     torchrun (m), world 2",
        "ok       processor    unknown: no unit computes in bf16, so --bf16 trains in float32",
        "ok       cores        4 of 4 cores (processors 0-3, no quota)",
        "ok       threads      OMP_NUM_THREADS=4, of 4 core(s)",
        "wrong    memory       0 MB, and `smoke` alone takes 768 MB",
        "                      try: docker run --memory, limits.memory in Kubernetes",
        "wrong    shm          /dev/shm has 0 MB",
        "                      try: docker run --shm-size 1g, in Kubernetes an emptyDir with medium Memory at /dev/shm",
        "warning  processes    5 processes and threads: a training may need 256",
        "                      try: docker run --pids-limit 4096, podPidsLimit of the kubelet, or fewer ranks and "
        "DataLoader workers",
        "warning  files        5 open files of a process: a training may need 1024",
        "                      try: docker run --ulimit nofile=65536, or fewer DataLoader workers",
        "warning  variables    A is left out",
        "                      try: unset what is left out",
        "wrong    packages     six missing instead of 1",
        "                      try: pip install --no-deps --force-reinstall six==1",
        "wrong    torch        cannot be imported: E",
        "                      try: correct what is named; the other rows may say why",
        "wrong    transformers transformers cannot be imported: E",
        "                      try: correct what is named; the other rows may say why",
        "wrong    backend      gloo: E",
        "                      try: correct what is named; the other rows may say why",
        "wrong    network      lo up, and the world has several nodes",
        "                      try: docker run --network NAME",
        "warning  directories  /out (5 files at most, 0 more; 1.0 GB free)",
        "                      try: remove files, or mount a volume with more inodes",
    ]


def test_an_object_has_a_line_for_each_value() -> None:
    text = write_json({"shm": Finding("1 GB")})
    rows = ['"name": "shm",', '"value": "1 GB",', '"state": "ok",', '"remedy": ""']
    checks = ['  "checks": [', "    {", *(f"      {row}" for row in rows), "    }", "  ]"]
    assert text.splitlines() == ["{", '  "healthy": true,', *checks, "}"]


def test_a_probe_that_died_is_said_where_something_was_to_be_imported() -> None:
    checks = examine(replace(HEALTHY, probe=Probe(error="exit code 139")))

    wrong = {name for name, check in checks.items() if check.state == WRONG and "exit code 139" in check.value}
    assert wrong == {"torch", "transformers", "backend"}


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"python": 1, "path": 2}'])
def test_a_probe_that_died_leaves_its_last_words(line: str) -> None:
    assert read_probe(line, "Segmentation fault") == Probe(error="Segmentation fault")


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        (subprocess.CompletedProcess([], 3, b"", b"\xff\nbad\n"), "bad"),
        (subprocess.CompletedProcess([], -9, b"", b""), "exit code -9"),
        (subprocess.TimeoutExpired([], 1), f"no answer within {timeouts.PROBE} s"),
        (FileNotFoundError(2, "No such file or directory"), "python3: No such file or directory"),
    ],
)
def test_a_probe_that_does_not_answer(ended: Any, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", mock.Mock(side_effect=[ended]))
    assert run_probe(["python3"], {}) == Probe(error=error)


def test_the_last_object_that_a_probe_prints_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 0, b'\xff\n{"python": "3.10"}\n{"python": "3.11"}\na warning\n', b"")
    run = mock.Mock(return_value=done)
    monkeypatch.setattr(subprocess, "run", run)
    assert run_probe(["python3"], {"A": "1"}) == Probe(python="3.11")
    options = {"env": {"A": "1"}, "capture_output": True, "timeout": timeouts.PROBE, "check": False}
    assert run.mock_calls == [mock.call(["python3"], **options)]


def test_other_words_are_refused() -> None:
    with pytest.raises(Refusal, match="no such option"):
        doctor(Command(DOCTOR, "doctor", ["--jsno"]), lambda job: PLAN)


@pytest.mark.parametrize(("launcher", "reported"), [("alone", True), ("mpijob-worker", False)])
def test_a_refused_training_is_reported_where_one_was_meant(launcher: str, reported: bool) -> None:
    def decide(job: Command) -> Plan:
        if job.trains:
            raise Refusal("no", "1", "unset RANK")
        return replace(PLAN, situation=place(World(launcher, "")))

    plan, refusal = decide_training(Command(DOCTOR, "doctor", []), decide)

    assert plan.world.launcher == launcher and (refusal is not None) is reported


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize(("states", "code"), [([OK, WARNING], 0), ([OK, WRONG, WARNING], 1)])
def test_doctor_ends_with_an_error_where_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], states: list[str], code: int
) -> None:
    findings = {f"check{number}": Finding("value", state, "remedy") for number, state in enumerate(states)}
    monkeypatch.setattr(module, "read_view", lambda *given: given)
    monkeypatch.setattr(module, "examine", lambda given: findings if given == (PLAN, None) else {})

    assert doctor(Command(DOCTOR, "doctor", words), lambda _: PLAN) == code
    out = capsys.readouterr().out
    assert (out.startswith("{") and json.loads(out)["healthy"] is (code == 0)) if words else "check1" in out


@pytest.mark.parametrize(("limit", "expected"), [(7, 7), (resource.RLIM_INFINITY, None)])
def test_a_limit_of_a_user_may_be_none(monkeypatch: pytest.MonkeyPatch, limit: int, expected: int | None) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, 99) if kind == resource.RLIMIT_NOFILE else None)

    assert module.read_user_limit(resource.RLIMIT_NOFILE) == expected


@pytest.mark.parametrize(
    ("writable", "known", "asked", "room"),
    [(False, True, [], None), (True, True, ["/here"], Disk("/here/a/b", 5, 6)),
     (True, False, ["/here"], Disk("/here/a/b", module.CHECKPOINT, module.CHECKPOINT))],
)  # fmt: skip
def test_the_room_of_a_directory_is_that_where_it_would_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool, known: bool, asked: list[str], room: Disk | None
) -> None:
    looked = list[str]()

    def find(path: str) -> Disk | None:
        looked.append(path)
        return Disk(path, 5, 6) if known else None

    monkeypatch.setattr(module, "can_write", lambda _: writable)
    monkeypatch.setattr(module, "find_disk", find)
    (tmp_path / "here").mkdir()

    disk = module.measure_room(f"{tmp_path}/here/a/b")

    assert looked == [f"{tmp_path}{path}" for path in asked]
    assert disk == (room and room._replace(path=f"{tmp_path}{room.path}"))


@pytest.mark.parametrize(
    ("variables", "limit", "files", "path", "processes", "places", "locked", "interfaces"),
    [
        ({"HF_HOME": "/hf", "TMPDIR": "/t"}, None,
         {"/opt/multinode/constraints.txt": "six==1.17.0\nNumpy==2.*\nno pin\n",
          "/sys/class/net/eth0/operstate": "up\n"},
         ("/x",), 30 + resource.RLIMIT_NPROC, {"/hf", "/t"}, {"six": "1.17.0", "numpy": "2.*"}, {"eth0": "up"}),
        ({"HF_HOME": "", "TMPDIR": ""}, 9, {}, (), 9, {"/tmp"}, {}, {"eth0": "unknown"}),
    ],
)  # fmt: skip
def test_a_view_has_what_a_training_would_find(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], limit: int | None, files: dict[str, str],
    path: tuple[str, ...], processes: int, places: set[str], locked: dict[str, str], interfaces: dict[str, str],
) -> None:  # fmt: skip
    argv = ["python3", "/opt/multinode/probe.py", "gloo"]
    facts = replace(PLAN.facts, files=files.get)
    monkeypatch.setattr(module, "run_probe", lambda words, _: Probe(path=path) if words == argv else None)
    monkeypatch.setattr(module, "read_installed", lambda path: {"six": path})
    monkeypatch.setattr(module, "list_directory", lambda _: ["eth0"])
    monkeypatch.setattr(module, "measure_room", lambda path: path)
    monkeypatch.setattr(module, "find_closed", lambda places, _: ["/closed"])
    monkeypatch.setattr(module, "read_user_limit", lambda kind: 30 + kind)
    monkeypatch.setattr(module, "read_process_limit", lambda _: limit)
    fault = Refusal("no thread", "clone3", "a newer engine")
    monkeypatch.setattr(module, "find_thread_fault", lambda *_: fault)

    view = module.read_view(replace(environ(**variables)["plan"], facts=facts), fault)

    assert (view.locked, view.interfaces, view.installed) == (locked, interfaces, {"six": path or (SITE,)})
    assert (view.processes, view.files) == (processes, 30 + resource.RLIMIT_NOFILE)
    directories = {path: str(disk) for path, disk in view.directories.items()}
    assert directories == {path: path for path in (OUTPUT, "/home/me", "/closed", *places)}
    assert (view.refusal, view.thread) == (fault, fault)
