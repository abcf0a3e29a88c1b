"""Our build against an expert's Dockerfile, from the same wheels on the same base."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from images.base import apt
from images.base import debian as base
from images.host import pip_config
from images.host.context import Access, Context
from images.host.progress import Progress
from images.host.store import Store
from images.layers import entrypoint_layer
from images.lock import resolve, source_only
from images.oci import image as oci
from images.oci.layer import Part
from images.plan import catalog, planner
from scripts.benchmarks import registry
from scripts.benchmarks.commands import buildkit, call, machine

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = Path(__file__).with_name("Dockerfile")
RELEASES = ("5.23.0", "5.22.2")  # what is built first, and what is changed to
ROWS = ("first", "next")
BASE = "multinode-bench-base:latest"
THEIRS = "multinode-bench-theirs"
STABLE = ("torch", "impi-rt", "intel-openmp", "intel-cmplr-lib-ur", "umf", "tcmlib", "pip")


@dataclass(frozen=True)
class Run:
    """One build: seconds until it can be pushed, seconds until it is pushed, bytes pushed in all and this time."""

    built: float
    pushed: float
    size: int
    sent: int


def measure(work: Path, runs: int) -> dict[str, Any]:
    """Build both ways in turn, each time from nothing but the downloaded parts, then once more with a new release."""
    client = buildkit()
    cache = work / "cache"
    for release in RELEASES:
        call([*build_py(release), "--output", f"{work}/warm/"], env={"XDG_CACHE_HOME": str(cache)})
    contexts = [context(work, cache, release) for release in RELEASES]
    load_base(client, cache)
    figures: dict[str, list[Run]] = {f"{side} {row}": [] for row in ROWS for side in ("ours", "theirs")}
    for number in range(runs):
        print(f"run {number + 1} of {runs}", file=sys.stderr)
        forget_layers(cache)
        with registry.running(work) as address:
            for row, release in zip(ROWS, RELEASES, strict=True):
                figures[f"ours {row}"].append(run_ours(release, work, cache, address))
        with registry.running(work) as address:
            for row, place in zip(ROWS, contexts, strict=True):
                mark(place, number)
                figures[f"theirs {row}"].append(run_theirs(client, place, address))
    unpacked = int(call([client, "image", "inspect", "--format", "{{.Size}}", THEIRS]))
    call([client, "rmi", THEIRS, BASE])
    return {
        "machine": machine(client),
        "releases": RELEASES,
        "unpacked": {"ours": unpacked_size(work), "theirs": unpacked},
        "runs": {name: [asdict(run) for run in made] for name, made in figures.items()},
    }


def build_py(release: str) -> list[str]:
    """Write our command line; neither side ships bytecode or examples."""
    options = ["--no-load", "--no-bytecode", "--examples", "none", "--transformers", release, "--json"]
    return [sys.executable, str(ROOT / "build.py"), *options]


def run_ours(release: str, work: Path, cache: Path, address: str) -> Run:
    """Build a layout and push it."""
    layout = work / f"layout-{release}"
    shutil.rmtree(layout, ignore_errors=True)
    began = time.monotonic()
    answer = json.loads(call([*build_py(release), "--output", f"{layout}/"], env={"XDG_CACHE_HOME": str(cache)}))
    built = time.monotonic() - began
    target = f"docker://{address}/ours:{release}"
    before = registry.stored(work)
    call(["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout}", target])
    pushed = time.monotonic() - began
    (work / "ours.json").write_text(json.dumps(answer))
    return Run(built, pushed, registry.manifest_size(address, "ours", release), registry.stored(work) - before)


def mark(place: Path, number: int) -> None:
    """Make BuildKit forget earlier runs, but not the layer below within one run: a mounted file is part of its key."""
    for folder in ("stable", "changing"):
        (place / folder / "run").write_text(f"{os.getpid()} {number}")


def run_theirs(client: str, place: Path, address: str) -> Run:
    """Build into the engine and push from there."""
    tag = f"{address}/theirs:{place.name}"
    began = time.monotonic()
    call([client, "build", "--tag", tag, "--tag", THEIRS, "--file", str(DOCKERFILE), str(place)])
    built = time.monotonic() - began
    before = registry.stored(place.parent)
    call([client, "push", "--quiet", tag])
    pushed = time.monotonic() - began
    call([client, "rmi", tag])
    return Run(
        built, pushed, registry.manifest_size(address, "theirs", place.name), registry.stored(place.parent) - before
    )


def context(work: Path, cache: Path, release: str) -> Path:
    """Lay out a build context with the wheels of our lock: links to the files that our build has downloaded."""
    place = work / f"context-{release}"
    table = catalog.load()
    planned = planner.resolve(planner.Request(transformers=release, examples="none"), table)
    store = Store(cache / "multinode")
    today = datetime.datetime.now(datetime.timezone.utc).date()
    around = Context(
        store=store, environ=os.environ, today=today, progress=Progress(Console(quiet=True)), jobs=1,
        pip=pip_config.read(os.environ), access=Access(environ=os.environ),
    )  # fmt: skip
    for artifact in resolve.packages(planned, around).artifacts:
        digest, name = artifact.sha256, artifact.filename
        if not name.endswith(".whl"):
            row = next(row for row in resolve.source_only(planned) if row.name == artifact.name)
            digest, name = source_only.to_wheel(store, store.root / "blobs" / digest / name, digest, row)
        folder = place / ("stable" if artifact.name in STABLE else "changing")
        folder.mkdir(parents=True, exist_ok=True)
        os.link(store.root / "blobs" / digest / name, folder / name)
        if artifact.name == "pip":
            (place / "pip").mkdir()
            os.link(folder / name, place / "pip" / "pip.whl")
    for path, data in entrypoint_layer.files().items():
        target = place / "own" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return place


def load_base(client: str, cache: Path) -> None:
    """Give the Dockerfile the very layer that our images stand on."""
    store = Store(cache / "multinode")
    row, today = catalog.load().debian, datetime.datetime.now(datetime.timezone.utc).date()
    debian, _ = base.make(store, row, apt.resolve(store, row, today, os.environ), os.environ)
    part = Part("debian base", debian.written, reused=True)
    path = {"Env": [f"PATH={entrypoint_layer.ENVIRONMENT['PATH']}"]}
    config = oci.config([part], path, "2024-01-01T00:00:00Z")
    image = oci.Image((BASE,), config, oci.registry_manifest(config, (part,), store, "zstd"), (part,))
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        archive = oci.save(f"{folder}/base.tar", image, store, "none")
        call([client, "load", "--quiet", "--input", str(archive)])


def forget_layers(cache: Path) -> None:
    """Leave the downloads and the base, nothing that our build has made of them."""
    for kind in ("layers", "bytecode", "packed", "looks"):
        shutil.rmtree(cache / "multinode" / "records" / kind, ignore_errors=True)
    shutil.rmtree(cache / "multinode" / "trees", ignore_errors=True)


def unpacked_size(work: Path) -> int:
    """Read the unpacked size of our image, in bytes, as the build told it."""
    return int(json.loads((work / "ours.json").read_text())["unpacked"])
