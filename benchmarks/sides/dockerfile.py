"""What the Dockerfiles are given: a context with the wheels of a bundle of multinode, and the base of its image."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from benchmarks.host.commands import ROOT, call
from benchmarks.host.scratch import Scratch
from benchmarks.sides.multinode import Multinode
from images.host.errors import UserFault, WorldFault

EXPERT = Path(__file__).with_name("expert.Dockerfile")
GUIDE = Path(__file__).with_name("guide.Dockerfile")
# What changes rarely is a layer of its own below the rest.
STABLE = ("torch", "impi_rt", "intel_openmp", "intel_cmplr_lib_ur", "umf", "tcmlib", "pip")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Debian:
    """A Dockerfile, the directory that it is given, its base and label, and pip's word for bytecode."""

    file: Path
    context: Path
    base: str
    label: str
    compile: str = "--no-compile"

    def build(self, *tags: str) -> None:
        """Build it into the engine."""
        words = [word for tag in tags for word in ("--tag", tag)]
        words += ["--label", self.label, "--build-arg", f"BASE={self.base}"]
        words += ["--build-arg", f"COMPILE={self.compile}"] if self.file == EXPERT else []
        call([find_client(os.environ), "build", *words, "--file", str(self.file), str(self.context)])


def find_client(environ: Mapping[str, str]) -> str:
    """Return the path of the first Docker client that drives BuildKit, by itself or with buildx.

    Raises UserFault when there is none.
    """
    files = [Path(directory) / "docker" for directory in environ.get("PATH", "").split(os.pathsep) if directory]
    for path in (str(file) for file in files if os.access(file, os.X_OK)):
        with contextlib.suppress(WorldFault):  # one that misses buildx refuses to build
            if "--secret" in call([path, "build", "--help"], seconds=30):
                return path
    raise UserFault("no Docker client here drives BuildKit", "docker build --secret", "apt-get install docker.io")


def lay_out(place: Path, bundle: Path) -> Path:
    """Write a build context: links to the wheels of a bundle, and the entrypoint as it is in this repository."""
    for wheel in (bundle / "wheels").glob("*.whl"):
        project = wheel.name.partition("-")[0].lower()
        directory = place / ("stable" if project in STABLE else "changing")
        directory.mkdir(parents=True, exist_ok=True)
        os.link(wheel, directory / wheel.name)
        if project == "pip":
            (place / "pip").mkdir()
            os.link(wheel, place / "pip" / "pip.whl")
    files = place / "own"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "multinode_image", files / "opt/multinode/lib/multinode_image", ignore=ignored)
    for directory in (ROOT / "images" / "rootfs").iterdir():
        shutil.copytree(directory, files / directory.name, ignore=ignored, dirs_exist_ok=True)
    return place


def mark(place: Path, number: int) -> None:
    """Make BuildKit forget earlier runs, but not the layer below within one run: a mounted file is part of its key."""
    for directory in ("stable", "changing"):
        (place / directory / "run").write_text(f"{os.getpid()} {number}")


def load_base(layer: Path, place: Path, name: str) -> None:
    """Load the lowest layer of an image, which is the Debian base, into the engine as an image of its own."""
    tar = place / "base.tar"
    with layer.open("rb") as compressed, tar.open("wb") as file:
        zstandard.ZstdDecompressor().copy_stream(compressed, file)
    call(["docker", "import", "--change", f"ENV {PATH}", str(tar), name])
    tar.unlink()


def prepare(scratch: Scratch, multinode: Multinode, release: str) -> Path:
    """Write the context for a release and load its base; return the context. The release's layout has to be there."""
    place = lay_out(multinode.work / "context", multinode.bundle(release))
    mark(place, 0)
    load_base(multinode.lowest(release), multinode.work, scratch.image("base"))
    return place
