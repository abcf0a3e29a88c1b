"""Our build against an expert's Dockerfile, from the same wheels on the same base."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import dockerfile, registry
from benchmarks.commands import build_py, buildkit, call, machine
from images.host.store import Store

RELEASES = ("5.23.0", "5.22.2")  # what is built first, and what is changed to
ROWS = ("first", "next")
# Neither side ships bytecode or examples. Two tasks are left out: they need packages without a wheel, and pip would run
# the code of those.
TASKS = "language-modeling,multiple-choice,question-answering,text-classification,text-generation,translation"
OPTIONS = ("--base", "debian", "--no-bytecode", "--examples", "none", "--tasks", TASKS)


@dataclass(frozen=True)
class Run:
    """One build: seconds until it can be pushed, seconds until it is pushed, bytes of the image and of this push."""

    built: float
    pushed: float
    size: int
    sent: int


@dataclass(frozen=True)
class Ours:
    """Our side: where layouts go, and the store's environment."""

    work: Path

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables that give every build the store of this benchmark."""
        return {"XDG_CACHE_HOME": str(self.work / "cache")}

    def build(self, release: str) -> dict[str, Any]:
        """Build a layout; return what build.py says of it."""
        layout = self.layout(release)
        shutil.rmtree(layout, ignore_errors=True)
        words = [*OPTIONS, "--transformers", release, "--no-load", "--json", "--output", f"{layout}/"]
        answer: dict[str, Any] = json.loads(call(build_py(*words), self.environ))
        return answer

    def layout(self, release: str) -> Path:
        """Return the directory of the OCI layout of a release."""
        return self.work / f"layout-{release}"

    def bundle(self, release: str) -> Path:
        """Write the lock of a release and all its files into a directory."""
        place = self.work / f"bundle-{release}"
        call(build_py("bundle", *OPTIONS, "--transformers", release, "--output", str(place)), self.environ)
        return place

    def forget(self) -> None:
        """Keep the downloads and the base, nothing that a build has made of them."""
        store = Store(self.work / "cache" / "multinode")
        store.forget("layers", "bytecode", "packed", "sonames", "sboms", "import checks")


def measure(work: Path, runs: int) -> dict[str, Any]:
    """Build both ways in turn, each time from nothing but the downloaded parts, then once more with a new release."""
    client, ours = buildkit(), Ours(work)
    made = [ours.build(release) for release in RELEASES]
    contexts = [dockerfile.context(work / f"context-{each}", ours.bundle(each)) for each in RELEASES]
    dockerfile.load_base(ours.layout(RELEASES[0]), work / "base")
    figures: dict[str, list[Run]] = {f"{side} {row}": [] for row in ROWS for side in ("ours", "theirs")}
    for number in range(runs):
        print(f"run {number + 1} of {runs}", file=sys.stderr)
        ours.forget()
        with registry.running(work) as address:
            for row, release in zip(ROWS, RELEASES, strict=True):
                figures[f"ours {row}"].append(run_ours(ours, release, address))
        with registry.running(work) as address:
            for row, place in zip(ROWS, contexts, strict=True):
                dockerfile.mark(place, number)
                figures[f"theirs {row}"].append(run_theirs(client, place, address))
    unpacked = int(call([client, "image", "inspect", "--format", "{{.Size}}", dockerfile.THEIRS]))
    call([client, "rmi", dockerfile.THEIRS, dockerfile.BASE])
    return {
        "machine": machine(client),
        "releases": RELEASES,
        "unpacked": {"ours": made[1]["unpacked"], "theirs": unpacked},
        "runs": {name: [asdict(run) for run in each] for name, each in figures.items()},
    }


def run_ours(ours: Ours, release: str, address: str) -> Run:
    """Build a layout and push it."""
    began = time.monotonic()
    ours.build(release)
    built = time.monotonic() - began
    before = registry.stored(ours.work)
    target = f"docker://{address}/ours:{release}"
    call(["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{ours.layout(release)}", target])
    pushed = time.monotonic() - began
    return Run(built, pushed, registry.manifest_size(address, "ours", release), registry.stored(ours.work) - before)


def run_theirs(client: str, place: Path, address: str) -> Run:
    """Build into the engine and push from there."""
    tag, work = f"{address}/theirs:{place.name}", place.parent
    began = time.monotonic()
    call([client, "build", "--tag", tag, "--tag", dockerfile.THEIRS, "--file", str(dockerfile.FILE), str(place)])
    built = time.monotonic() - began
    before = registry.stored(work)
    call([client, "push", "--quiet", tag])
    pushed = time.monotonic() - began
    call([client, "rmi", tag])
    return Run(built, pushed, registry.manifest_size(address, "theirs", place.name), registry.stored(work) - before)


def table(result: Mapping[str, Any]) -> str:
    """Return medians and ratios as a table in Markdown."""
    first, then = result["releases"]
    runs, unpacked = result["runs"], result["unpacked"]
    rows = [
        ("build, from downloaded parts to something that can be pushed", "first", "built", "s"),
        ("the same, and pushed to an empty local registry", "first", "pushed", "s"),
        (f"build again for another transformers ({first} → {then})", "next", "built", "s"),
        ("the same, and pushed", "next", "pushed", "s"),
        ("bytes sent by that push", "next", "sent", "MB"),
        ("image, compressed", "first", "size", "MB"),
    ]
    lines = ["| | multinode | Dockerfile | ratio |", "|---|---|---|---|"]
    for title, row, field, unit in rows:
        pair = [statistics.median(run[field] for run in runs[f"{side} {row}"]) for side in ("ours", "theirs")]
        lines.append(_line(title, pair[0], pair[1], unit))
    lines.append(_line("image, unpacked", unpacked["ours"], unpacked["theirs"], "MB"))
    return "\n".join([*lines, "", f"Medians of {len(runs['ours first'])} alternating runs; {result['machine']}."])


def _line(title: str, ours: float, theirs: float, unit: str) -> str:
    return f"| {title} | {_written(ours, unit)} | {_written(theirs, unit)} | {ours / theirs:.2f} |"


def _written(value: float, unit: str) -> str:
    """Write seconds, or bytes as megabytes."""
    return f"{value:.1f} s" if unit == "s" else f"{value / 1e6:.1f} MB"
