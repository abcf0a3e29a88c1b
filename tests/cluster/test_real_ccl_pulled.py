"""The real oneCCL stack on a base like Intel's from a registry, which is the default for it.

Intel's own image has Python 3.10 and is out of reach where these tests run; this base has the same packages in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import Cluster, two_pods
from tests.cluster.test_real_ccl import SMOKE, passed
from tests.support import locks, real_ccl
from tests.support.harness import IMAGES, Done, built, remove_images, run
from tests.support.registry import fill, mirrored
from tests.support.stand_in import Image, Layout, digest, layout, write

pytestmark = pytest.mark.slow

RELEASES = ("--transformers", "4.46.0", "--examples", "none")
INTELS = "intel/intel-optimized-pytorch:2.4.0-pip-multinode"
# What the base has, beside the system: Intel's image has PyTorch, IPEX and the bindings, and no transformers.
LAYERS = ("debian base", "torch", "oneccl and ipex")


@pytest.fixture(scope="module")
def registry(engine: None, module_path: Path, open_registry: str) -> str:
    """Serve the base under Intel's name; answer the registry's address."""
    answer = built(*options(), "--base", "debian", "--no-load", "--output", f"{module_path}/debian/")
    digests = [row["digest"] for row in answer["layers"] if row["name"] in LAYERS]
    assert len(digests) == len(LAYERS)
    kept = [part for part in Layout(module_path / "debian").parts if digest(part.data) in digests]
    base = write(module_path / "base", layout({"1": Image.of(kept)}))
    fill(f"{base}:1", f"{open_registry}/{INTELS}")
    return open_registry


def options() -> tuple[str, ...]:
    """Write the options that both builds have."""
    return (*real_ccl.OPTIONS, *RELEASES, "--wheelhouse", str(real_ccl.wheelhouse()))


@pytest.fixture(scope="module")
def on_base(registry: str, module_path: Path) -> Iterator[dict[str, Any]]:
    """Build on it, as if Docker Hub had it; the Python has to be named, for Intel's image has another."""
    base = ("--base", INTELS, "--python", "3.11")
    tag = f"{IMAGES}:real-ccl-pulled"
    home = mirrored(module_path, "docker.io", registry, insecure=True)
    yield built(*options(), *base, "--tag", tag, "--output", f"{module_path}/layout/", env=home)
    remove_images([tag])


@pytest.fixture(scope="module")
def pods(on_base: dict[str, Any]) -> Iterator[Cluster]:
    """Bring up two containers."""
    with two_pods(f"multinode{os.getpid()}pulled", on_base["image"], {}) as cluster:
        yield cluster


def test_what_the_base_has_is_kept(on_base: dict[str, Any], module_path: Path) -> None:
    lock = locks.read(locks.path_beside(module_path / "layout"))

    assert lock.base_image and lock.base_image.reference == f"docker.io/{INTELS}"
    assert {"torch", "intel-extension-for-pytorch", "oneccl-bind-pt"} <= set(lock.base_image.kept)


def test_two_ranks_in_one_container_without_a_network(on_base: dict[str, Any]) -> None:
    assert passed(run(on_base["image"], "--nproc", "2", *SMOKE), 2)


def test_torchrun_on_two_nodes(pods: Cluster) -> None:
    done = pods.both(*SMOKE, environ=[pods.elastic] * 2)

    assert [end.code for end in done] == [0, 0]
    assert passed(Done(0, done[0].text + done[1].text, ""), 2)
