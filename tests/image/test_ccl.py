"""The oneCCL stack from a folder of wheels, laid out and looked at in containers; the wheels are stand-ins."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ccl_wheels, locks, stand_in
from tests.support.harness import HARDENED, build, built, run
from tests.support.stand_in import derived, write

SITE = "/usr/local/lib/python3.11/dist-packages"
ROOT = f"{SITE}/{ccl_wheels.BINDINGS}"
GUIDE = f"/usr/local/lib/python3.10/dist-packages/{ccl_wheels.BINDINGS}/env/setvars.sh"
STACK = ("--torch", "2.4.0", "--transformers", "4.46.0", "--examples", "none")
# The tasks that want least, and no bytecode: neither has to do with the stack.
OPTIONS = (*STACK, "--tasks", "text-generation", "--no-bytecode")

ENVIRON = "import json, os; print(json.dumps(dict(os.environ)))"
# Which files of a name there are, links not counted, and one file under several names once.
COPIES = """
import json, os
found = {}
for folder, _, names in os.walk("/usr"):
    for name in names:
        place = os.path.join(folder, name)
        if name.startswith(("libccl", "libmpi", "libfabric", "mpirun", "mpiexec")) and not os.path.islink(place):
            found.setdefault(name, {})[os.stat(place).st_ino] = place
print(json.dumps({name: list(places.values()) for name, places in found.items()}))
"""
# Every row of RECORD that has a hash.
RECORDS = """
import base64, hashlib
from importlib.metadata import distribution
for name in ("oneccl_bind_pt", "intel_extension_for_pytorch"):
    for file in distribution(name).files:
        if file.hash:
            data = file.locate().read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, len(data)) == (file.hash.value, file.size), file
    print(name, len(distribution(name).files))
"""


@pytest.fixture(scope="module")
def wheelhouse(module_path: Path) -> Path:
    """Make the wheels that no index here has, and those that would import the real torch."""
    return ccl_wheels.stack(module_path / "wheels")


@pytest.fixture(scope="module")
def layout(
    engine: None, wheelhouse: Path, module_path: Path, module_tag: Callable[[str], str]
) -> tuple[Path, dict[str, Any]]:
    """Build on Debian, into Docker and into a layout."""
    place = module_path / "layout"
    wheels = ("--wheelhouse", str(wheelhouse), "--tag", module_tag("ccl"))
    return place, built(*OPTIONS, *wheels, "--base", "debian", "--output", f"{place}/")


@pytest.fixture(scope="module")
def image(layout: tuple[Path, dict[str, Any]]) -> str:
    return str(layout[1]["image"])


def said(image: str, script: str, *options: str) -> Any:
    """Run Python in a container through the entrypoint; read what it prints, which is all that may stand on stdout."""
    done = run(image, "python3", "-c", script, options=options)
    assert done.code == 0
    return json.loads(done.out)


def test_the_entrypoint_takes_over_what_setvars_says(image: str) -> None:
    environ = said(image, ENVIRON, *HARDENED)

    assert environ["CCL_ROOT"] == ROOT
    assert environ["I_MPI_ROOT"] == f"{ROOT}/opt/mpi"
    assert environ["FI_PROVIDER_PATH"] == f"{ROOT}/opt/mpi/libfabric/lib/prov:/usr/lib64/libfabric"
    assert environ["PATH"].startswith(f"{ROOT}/opt/mpi/bin:")
    assert f"{ROOT}/opt/mpi/libfabric/lib" in environ["LD_LIBRARY_PATH"].split(":")
    assert "/usr/local/lib/libiomp5.so" in environ["LD_PRELOAD"].split(":")
    assert environ["CCL_WORKER_COUNT"] == "1"


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        (
            f"set -eu; export LD_LIBRARY_PATH=; source {GUIDE}; command -v mpirun; mpirun",
            [f"{ROOT}/opt/mpi/bin/mpirun", f"Intel MPI below {ROOT}/opt/mpi"],
        ),
        (
            "I_MPI_ROOT=/usr/local; export I_MPI_ROOT; command -v mpirun; mpirun",
            ["/usr/local/bin/mpirun", "Intel MPI below /usr/local"],
        ),
        (
            "mpirun; echo $CCL_ATL_TRANSPORT $I_MPI_ROOT",
            ["Intel MPI below /usr/local/opt/mpi", "ofi /usr/local/opt/mpi"],
        ),
    ],
    ids=["the guide's line", "a plain shell", "what setvars would set"],
)
def test_mpirun_is_that_of_the_image_without_the_entrypoint(image: str, script: str, lines: list[str]) -> None:
    done = run(image, "-c", script, options=(*HARDENED, "--entrypoint", "bash"))

    assert done.code == 0
    assert done.out.splitlines() == lines


def test_the_paths_of_the_guide_lead_to_files(image: str) -> None:
    paths = (
        GUIDE, "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9", "/usr/local/lib/libiomp5.so", "/usr/bin/ps",
        "/usr/local/bin/mpirun", "/usr/local/bin/mpiexec.hydra", "/usr/local/bin/hydra_pmi_proxy",
        "/usr/local/opt/mpi/libfabric/lib/prov/libtcp-fi.so",
    )  # fmt: skip
    done = run(image, "-L", "-c", "%F", *paths, options=("--entrypoint", "stat"))

    assert done.out.splitlines() == ["regular file"] * len(paths)


def test_there_is_one_copy_of_the_runtime_and_it_is_ipexs(image: str) -> None:
    copies = said(image, COPIES)

    assert {"libccl.so", "libccl.so.1.0", "libmpi.so.12", "libfabric.so.1", "mpiexec.hydra", "mpirun"} <= copies.keys()
    assert not [name for name in copies if name.startswith(("libmpifort", "libccl.a"))]
    for name, places in copies.items():
        assert [place.startswith(f"{SITE}/{ccl_wheels.IPEX}/") for place in places] == [True], name


def test_the_packages_are_what_their_records_say(image: str) -> None:
    records = run(image, "python3", "-c", RECORDS)
    checked = run(image, "pip", "check")

    assert records.code == checked.code == 0
    assert len(records.out.splitlines()) == 2


def test_numpy_and_pyarrow_are_of_one_generation(wheelhouse: Path, tmp_path: Path) -> None:
    """All that the stack takes from the index, as of its days: the newest pyarrow cannot be imported with NumPy 1."""
    for wheel in wheelhouse.iterdir():
        if wheel.name.partition("-")[0] not in ccl_wheels.ABOVE:
            (tmp_path / wheel.name).symlink_to(wheel)

    output = str(tmp_path / "pylock.toml")
    done = build("lock", *STACK, "--base", "debian", "--wheelhouse", str(tmp_path), "--output", output)

    assert done.code == 0
    lock = locks.read(tmp_path / "pylock.toml")
    versions = {artifact.name: artifact.version for artifact in lock.artifacts}
    assert (versions["numpy"], versions["pyarrow"], versions["transformers"]) == ("1.26.4", "17.0.0", "4.46.0")


@pytest.fixture(scope="module")
def on_base(
    layout: tuple[Path, dict[str, Any]], wheelhouse: Path, module_path: Path, module_tag: Callable[[str], str]
) -> tuple[Path, dict[str, Any]]:
    """Build on a base like Intel's: the planned bindings are in it, and an older IPEX."""
    folder = module_path / "pulled"
    older = ccl_wheels.ipex(folder / "older", "2.3.0")
    files = {**installed(wheelhouse / "oneccl_bind_pt-2.4.0+cpu-cp311-cp311-linux_x86_64.whl"), **installed(older)}
    layout_of_base = stand_in.layout({"1": derived(layout[0], files)})
    base = ("--base", f"oci:{write(folder / 'base', layout_of_base)}", "--python", "3.11")
    wheels = ("--wheelhouse", str(wheelhouse), "--tag", module_tag("ccl-pulled"))
    return folder / "layout", built(*OPTIONS, *base, *wheels, "--output", f"{folder}/layout/")


def installed(wheel: Path) -> dict[str, bytes]:
    """Lay a wheel out as pip would."""
    with zipfile.ZipFile(wheel) as archive:
        return {f"{SITE}/{name}".lstrip("/"): archive.read(name) for name in archive.namelist()}


def test_bindings_of_the_base_stay_and_are_found(on_base: tuple[Path, dict[str, Any]]) -> None:
    kept = locks.read(locks.path_beside(on_base[0])).base_image
    environ = said(on_base[1]["image"], ENVIRON, *HARDENED)
    versions = run(on_base[1]["image"], "pip", "list", "--format=json")

    assert kept and "oneccl-bind-pt" in kept.kept
    assert "intel-extension-for-pytorch" not in kept.kept
    assert environ["CCL_ROOT"] == ROOT
    rows = {row["name"]: row["version"] for row in json.loads(versions.out)}
    assert rows["intel_extension_for_pytorch"] == "2.4.0"
    assert run(on_base[1]["image"], "test", "-e", GUIDE).code == 0


def test_the_lock_builds_the_same_again(layout: tuple[Path, dict[str, Any]], wheelhouse: Path) -> None:
    again = built("--lock", str(locks.path_beside(layout[0])), "--wheelhouse", str(wheelhouse), "--no-load")

    assert again["digest"] == layout[1]["digest"]
