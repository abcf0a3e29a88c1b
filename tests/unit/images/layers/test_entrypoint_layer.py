"""What pip holds in an image, the files of its entrypoint, and what it says of itself."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import runpy
import shutil
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from images.base.base import BaseImage, Site
from images.layers import entrypoint_layer
from images.layers.configuration import ENVIRONMENT, container_settings, labels
from images.layers.entrypoint_layer import AT_START, PACKAGE, read_entrypoint
from images.lock.lock import Lock
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.platforms import ARM64
from images.store.store import Store
from multinode_image.settings import TRAINING
from tests.support import locks
from tests.support.bases import DIGEST, base
from tests.support.locks import lock
from tests.support.stand_in import SYSTEM

# Name -> version and Requires-Dist, of a default image.
RECORDED = json.loads((Path(__file__).parents[3] / "data/requires.json").read_text())
REQUIRES = {name: package["requires"] for name, package in RECORDED.items()}
HELD = {"torch", "transformers", "accelerate", "tokenizers", "safetensors", "huggingface-hub", "numpy", "sympy"}
FREE = {"pandas", "datasets", "pyarrow", "scikit-learn", "evaluate", "pip"}


def recorded(**changes: Any) -> Lock:
    return locks.lock([locks.artifact(name, package["version"]) for name, package in RECORDED.items()], **changes)


def held(text: str) -> dict[str, str]:
    return dict(line.split("==") for line in text.splitlines())


def test_what_training_works_with_is_held_and_nothing_else() -> None:
    constraints = held(entrypoint_layer.format_constraints(recorded(), REQUIRES))

    assert {*constraints} >= HELD and not {*constraints} & FREE
    assert all(constraints[name] == RECORDED[name]["version"] for name in constraints if name != "numpy")
    assert constraints["numpy"] == RECORDED["numpy"]["version"].partition(".")[0] + ".*"


def test_what_a_base_has_itself_is_held_as_it_is() -> None:
    base = BaseImage(None, ("pandas",))  # type: ignore[arg-type]

    assert {*held(entrypoint_layer.format_constraints(recorded(base_image=base), REQUIRES))} & FREE == {"pandas"}


@pytest.mark.parametrize(
    ("line", "is_held"),
    [
        ("six", True),
        ("Six (>=1.0)", True),
        ("six>=1.0.*", True),
        ('six; python_version < "3.9"', False),
        ('six; platform_machine == "aarch64"', False),
        ('six; sys_platform == "win32"', False),
        ('six; extra == "dev"', False),
        ("more[dev]", True),
        ("more", False),
        ("???", False),
        ('six; os_name ~= "posix"', True),
        (f"six; {'(' * 10_000}", True),
        ('six; platform_release >= "1"', False),
    ],
)
def test_a_requirement_counts_where_the_image_has_it(line: str, is_held: bool) -> None:
    lock = locks.lock([*locks.lock().artifacts, locks.artifact("six", "1.17"), locks.artifact("more", "1")])
    requires = {"torch": [line], "more": ['six; extra == "dev"']}

    assert ("six" in held(entrypoint_layer.format_constraints(lock, requires))) is is_held


def test_a_requirement_is_that_of_the_images_machine() -> None:
    lock = locks.lock([*locks.lock().artifacts, locks.artifact("six", "1")], platform=ARM64)

    assert "six" in held(entrypoint_layer.format_constraints(lock, {"torch": ['six; platform_machine == "aarch64"']}))


TITLE = "org.opencontainers.image"
ROOT = Path(__file__).parents[4]
SITE = Site("3.11", "usr/lib/python3/dist-packages", "/usr/bin/python3")


PLACES = ("multinode_image", "multinode_image/tuning", "images/rootfs", "images/rootfs/opt/multinode")
LEFT = (
    ".main.py.swp", ".DS_Store", "._main.py", ".#main.py", "#main.py#", "main.py~", "main.py.orig", "main.py.rej",
    ".idea/main.py", "__pycache__/main.cpython-311.pyc", "main copy.py", "main.pyc",
)  # fmt: skip


def test_what_editors_and_systems_leave_in_a_checkout_does_not_go_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("multinode_image", "images/rootfs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(entrypoint_layer, "HERE", tmp_path / "images")
    before = read_entrypoint(SITE)
    for left in (tmp_path / place / name for place in PLACES for name in LEFT):
        left.parent.mkdir(exist_ok=True)
        left.write_text("secret")

    assert read_entrypoint(SITE) == before


@pytest.mark.parametrize(
    ("is_debian", "name", "stated"),
    [
        (True, "debian:bookworm", {"multinode.base": "debian:bookworm"}),
        (False, "a/b:1", {f"{TITLE}.base.name": "a/b:1", f"{TITLE}.base.digest": DIGEST}),
        (False, None, {f"{TITLE}.base.digest": DIGEST}),
    ],
)
def test_only_a_pulled_base_is_one_that_layers_are_shared_with(
    is_debian: bool, name: str | None, stated: dict[str, str]
) -> None:
    values = labels(lock(python="3.10"), dataclasses.replace(base(SYSTEM, is_debian=is_debian), name=name))

    assert {label: value for label, value in values.items() if ".base" in label} == stated
    assert f"{TITLE}.licenses" not in values  # no licence is that of everything inside


def write(store: Store, *parts: dict[str, bytes]) -> tuple[bytes, list[tuple[str, int]]]:
    """Write an entrypoint of sources, bytecode and texts; return its bytes, and its files."""
    sources, bytecode, texts = parts
    with store.temporary() as place:
        with LayerWriter(place, Directories()) as layer:
            shown = {name: data.decode() for name, data in texts.items()}
            entrypoint_layer.write_entrypoint(layer, sources, bytecode, shown, base(SYSTEM))
            layer.finish()
        packed = place.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read())) as tar:
        return packed, [(info.name, info.mode) for info in tar]


def test_the_bytes_of_an_entrypoint_do_not_depend_on_the_order_of_its_files(store: Store) -> None:
    parts = [{f"{place}{name}": data for name in ("b", "a")}
             for place, data in (("opt/s/", b"#!x"), ("opt/c/", b"pyc"), ("", b"text"))]  # fmt: skip

    packed, files = write(store, *parts)
    again, _ = write(store, *(dict(sorted(part.items())) for part in parts))

    assert packed == again
    directories = {name: mode for name, mode in files if name in (*entrypoint_layer.DIRECTORIES, "run/sshd")}
    assert directories == {**dict.fromkeys(entrypoint_layer.DIRECTORIES, entrypoint_layer.WRITABLE), "run/sshd": 0o755}
    assert [(name, mode) for name, mode in files if name.startswith(("opt/s/", "opt/c/"))] == [
        ("opt/c/a", 0o644), ("opt/c/b", 0o644), ("opt/s/a", 0o755), ("opt/s/b", 0o755)
    ]  # fmt: skip
    assert "etc/passwd" in dict(files)


PROGRAMS = entrypoint_layer.HERE / "rootfs/opt/multinode"


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.py")))
def test_a_program_is_found_in_the_directory_of_what_starts_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "multinode_image.__main__" if name == "__main__" else f"multinode_image.programs.{name}"
    calls = list[object]()
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(main=lambda *given: calls.append((sys.path[0], *given))))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [name, "a", "b"])

    with pytest.raises(SystemExit):
        runpy.run_path(f"{PROGRAMS / name}.py", run_name="__main__")

    assert calls == [(f"{PROGRAMS}/lib", ["a", "b"], os.environ, str(PROGRAMS))]


def test_the_line_is_one_that_site_runs() -> None:
    directory, line = AT_START.splitlines()
    assert directory == f"/{PACKAGE}" and line.startswith("import ") and TRAINING in line


def test_hydra_of_mpich_starts_processes_as_intel_s_does() -> None:
    names = ("torch", "transformers", "mpich")
    locked = lock([locks.artifact(name, "5.0.0") for name in names], python="3.10")

    settings = container_settings(locked, base(SYSTEM))["Env"]

    assert {"HYDRA_BOOTSTRAP_EXEC=/opt/multinode/ssh", "I_MPI_HYDRA_BOOTSTRAP_EXEC=/opt/multinode/ssh"} <= {*settings}


def test_a_variable_of_the_users_stands_above_those_of_the_base_and_below_the_images_own() -> None:
    below = dataclasses.replace(base(SYSTEM, is_debian=True), environment={"A": "0", "B": "0", "PATH": "/bin"})
    locked = lock(python="3.10", env=("A=1 = 2", "HF_HOME=/elsewhere", "KERAS_BACKEND=torch"))

    environment = container_settings(locked, below)["Env"]

    assert {"A=1 = 2", "B=0", "KERAS_BACKEND=torch", f"HF_HOME={ENVIRONMENT['HF_HOME']}"} <= {*environment}
    assert len({line.partition("=")[0] for line in environment}) == len(environment)
