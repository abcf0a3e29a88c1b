"""What is in the container and around it: one fault at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrypoint.doctor.view import OK, WARNING, WRONG, Directory, Interface, Probe
from entrypoint.errors import Refusal
from entrypoint.machine.image import TORCH_INDEX, WITHOUT_HOME
from entrypoint.world.model import World
from tests.support.doctor import (
    GB,
    HEALTHY,
    IOMP,
    NODES,
    PROBE,
    SITE,
    TCMALLOC,
    find_faults,
    find_rows,
    with_environ,
)


@pytest.mark.parametrize(
    ("change", "name", "state", "said"),
    [
        ({"refusal": Refusal("alone", "RANK=1", "unset RANK")}, "launcher", WRONG, "RANK=1"),
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
    (found,) = find_faults(HEALTHY._replace(**change))  # type: ignore[arg-type]
    assert (found.name, found.state) == (name, state)
    assert said in found.value and found.remedy


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (Probe(error="exit code 139"), "exit code 139"),
        (Probe("3.11.2", (SITE,), error="ImportError: a", broken="ImportError: b", importing="transformers"), ""),
    ],
)
def test_without_a_torch_nothing_is_said_of_the_one_that_belongs_there(probe: Probe, said: str) -> None:
    found = {row.name: row for row in find_faults(HEALTHY._replace(probe=probe))}
    assert found.keys() == {"torch", "transformers", "backend"}
    assert found["torch"].value == f"cannot be imported: {said or 'ImportError: a'}"
    assert found["transformers"].value == f"cannot be imported: {said or 'ImportError: b'}"
    assert not any(version in row.value for row in found.values() for version in ("2.13.0", "5.23.0"))


@pytest.mark.parametrize(
    ("change", "hidden"),
    [
        ({"installed": {"six": ("1.16.0",)}}, "six"),
        ({"probe": PROBE._replace(file="/home/me/torch/__init__.py")}, "torch"),
        ({"probe": PROBE._replace(transformers="4.57.6")}, "transformers"),
        ({"probe": PROBE._replace(transformers="", broken="ImportError: a")}, "tokenizers"),
    ],
)
def test_packages_of_a_home_are_left_out_and_not_installed_again(change: dict[str, object], hidden: str) -> None:
    (found,) = find_faults(HEALTHY._replace(**change, hidden=frozenset({hidden})))  # type: ignore[arg-type]
    assert found.remedy is not None
    assert found.remedy.endswith(WITHOUT_HOME)


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
    (found,) = find_faults(HEALTHY._replace(probe=probe))
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
    (found,) = find_faults(HEALTHY._replace(locked=locked, installed={}))
    assert found.remedy == f"pip install --no-deps --force-reinstall {remedy}"


LOCKED = {"datasets": "4.4.1", "dill": "0.4.0", "fsspec": "2025.10.0", "pandas": "3.0.1", "six": "1.17.0"}
OLD = {"datasets": ("3.6.0",), "dill": ("0.3.8",), "fsspec": ("2025.3.0",), "pandas": ("2.3.3",), "six": ("1.17.0",)}
PINS = "datasets==4.4.1 dill==0.4.0 fsspec==2025.10.0 pandas==3.0.1"


@pytest.mark.parametrize(
    ("change", "state", "remedy"),
    [
        ({}, WARNING, f"leave it for data sets that need an older datasets; else pip install * {PINS}"),
        ({"six": ("1.16.0",)}, WRONG, "pip install * six==1.17.0"),
        ({"dill": ()}, WRONG, "pip install * dill==0.4.0"),
        ({"dill": ("0.3.8", "0.4.0")}, WRONG, "pip install * dill==0.4.0"),
        ({"datasets": ()}, WRONG, f"pip install * {PINS}"),
        ({"datasets": ("3.6.0", "4.4.1")}, WRONG, f"pip install * {PINS}"),
        ({"datasets": ("4.3.0",)}, WRONG, f"pip install * {PINS}"),
        ({"datasets": ("4.4.1",)}, WRONG, "pip install * dill==0.4.0 fsspec==2025.10.0 pandas==3.0.1"),
    ],
)
def test_an_older_datasets_that_a_remedy_installs_is_no_damage(
    change: dict[str, tuple[str, ...]], state: str, remedy: str
) -> None:
    (found,) = find_faults(HEALTHY._replace(locked=LOCKED, installed={**OLD, **change}))
    assert (found.name, found.state) == ("packages", state)
    assert found.remedy == remedy.replace("*", "--no-deps --force-reinstall")


def test_an_older_datasets_than_that_of_an_old_lock_is_wrong() -> None:
    (found,) = find_faults(HEALTHY._replace(locked={"datasets": "3.6.0"}, installed={"datasets": ("2.21.0",)}))
    assert (found.state, found.value) == (WRONG, "datasets 2.21.0 instead of 3.6.0")


def test_a_virtual_environment_has_tools_of_its_own() -> None:
    locked = {"pip": "26.1.2", "setuptools": "83.0.0", "six": "1.17.0"}
    installed = {"pip": ("23.0.1",), "setuptools": ("66.1.1",), "six": ("1.17.0",)}
    rows = find_rows(HEALTHY._replace(locked=locked, installed=installed))
    assert (rows["packages"].state, rows["packages"].value) == (OK, "1 as locked")


def test_another_python_is_told_in_one_line() -> None:
    (found,) = find_faults(HEALTHY._replace(installed={}, probe=PROBE._replace(path=("/venv",))))
    assert (found.name, found.remedy) == ("packages", "put /usr/local/bin and /usr/bin first in PATH")


def test_the_versions_that_are_imported_are_shown() -> None:
    rows = find_rows(HEALTHY)
    assert (rows["torch"].value, rows["transformers"].value) == ("2.13.0+cpu", "5.23.0")


def test_ranks_of_an_mpijob_are_not_in_its_launcher() -> None:
    """They run on the workers, whatever one process here would be."""
    decision = replace(with_environ(GLOO_SOCKET_IFNAME="lo"), world=World("mpijob-launcher", "role", local_size=1))
    rows = find_rows(HEALTHY._replace(decision=decision))

    assert rows["launcher"].value == "mpijob-launcher (role), ranks run on the hosts of the hostfile: --explain smoke"
    assert rows["network"].value.endswith("ranks meet on the network of the hosts in the hostfile")
    assert {rows["launcher"].state, rows["network"].state} == {OK}


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        (None, "the system's; none is mounted at /etc/multinode/ca.pem"),
        ("-----BEGIN CERTIFICATE-----\n", "the system's and /etc/multinode/ca.pem"),
    ],
)
def test_certificates_that_are_trusted(certificate: str | None, said: str) -> None:
    assert find_rows(HEALTHY._replace(certificate=certificate))["certificate"].value == said


@pytest.mark.parametrize(
    ("mounted", "said"),
    [(True, "can be written: /out /cache"), (False, "can be written: /out /cache; lost with the container: /out")],
)
def test_directories_that_are_lost_with_the_container(mounted: bool, said: str) -> None:
    directories = (Directory("/out", True, mounted, None), Directory("/cache", True, True, GB))
    assert find_rows(HEALTHY._replace(directories=directories))["directories"].value == said


def test_a_user_has_a_home() -> None:
    assert find_rows(HEALTHY._replace(user=(1000, 0)))["user"].value == "uid 1000, gid 0, home /home/multinode"
