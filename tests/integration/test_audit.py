"""The gate: the real pip-audit and the whole command, asking servers on loopback that answer as OSV and Debian do."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from images.debian.deb import Deb
from images.lock import lockfile
from images.store.blobs import sha256
from images.store.store import Store
from tests.support.harness import Done, assert_three_parts, call
from tests.support.locks import lock
from tests.support.packages import package
from tests.support.web import Reply, Request, listening

SUITE = "bookworm"
ADVISORY = {
    "id": "GHSA-aaaa-bbbb-cccc",
    "aliases": ["CVE-2026-7"],
    "affected": [
        {
            "package": {"name": "torch", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.13.1"}]}],
        }
    ],
}
OPEN = {"status": "open", "urgency": "high"}
MENDED = {"status": "resolved", "fixed_version": "0", "urgency": "not yet assigned"}


@dataclass
class World:
    """A lock with one Debian package, what is known against its parts, and what is asked."""

    lock: Path
    environ: dict[str, str]
    host: str = ""
    advisories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tracker: bytes | None = json.dumps({"glibc": {"CVE-2026-8": {"releases": {SUITE: MENDED}}}}).encode()
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        """Answer as api.osv.dev/v1/query, and as Debian's tracker."""
        if request.method == "GET":
            return Reply(200, self.tracker) if self.tracker is not None else Reply(404)
        asked = json.loads(request.body)
        self.asked.append(asked)
        advisories = self.advisories.get(asked["package"]["name"])
        return Reply(200, json.dumps({"vulns": advisories} if advisories else {}).encode())

    def run(self, *more: str) -> Done:
        """Type the command."""
        places = ["--osv", f"http://{self.host}/v1/query", "--tracker", f"http://{self.host}/tracker"]
        typed = [sys.executable, "-m", "scripts.audit", str(self.lock), *places, *more]
        return call(typed, env={**os.environ, **self.environ})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Make a lock whose one .deb is in a store: libc6, of the source glibc."""
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
    deb, store = tmp_path / "libc6.deb", Store(tmp_path / "cache" / "multinode")
    deb.write_bytes(package("libc6", version="2.36-9+b1", Source="glibc (2.36-9)"))
    digest = sha256(deb)
    store.keep(deb, digest, deb.name)
    locked = lock(debs=[Deb("libc6", "2.36-9+b1", "amd64", deb.name, digest)])
    place = tmp_path / "pylock.toml"
    # Made by other tools than those that are here: what was published is looked at, too.
    place.write_text(lockfile.format_lock(locked).replace('packaging = "', 'packaging = "9'))
    opened = World(place, environ)
    with listening(opened.answer) as host:
        opened.host = host
        yield opened


def test_nothing_is_known_against_a_lock(world: World) -> None:
    done = world.run()

    assert done.code == 0
    assert done.out.startswith("nothing counts against 2 Python packages, 1 sources of Debian bookworm")
    assert [(question["package"]["name"], question["version"]) for question in world.asked] == [
        ("torch", "2.13.0"),  # without +cpu, of which no database knows
        ("transformers", "5.23.0"),
    ]


def test_what_is_known_ends_the_audit(world: World) -> None:
    world.advisories = {"torch": [ADVISORY]}
    world.tracker = json.dumps({"glibc": {"CVE-2026-8": {"releases": {SUITE: OPEN}}}}).encode()

    done = world.run()

    assert_three_parts(done, 1, "glibc, torch", "build.py lock --as-of")
    assert done.out.splitlines() == [
        "glibc 2.36-9: CVE-2026-8: no fix yet",
        "torch 2.13.0: CVE-2026-7, GHSA-aaaa-bbbb-cccc: fixed in 2.13.1",
    ]


@pytest.mark.parametrize("tracker", [None, b"<html>log in</html>", b"[]"])
def test_a_tracker_that_says_nothing_is_a_fault(world: World, tracker: bytes | None) -> None:
    world.tracker = tracker

    assert_three_parts(world.run(), 1, "racker", "--tracker")


SILENT = [Reply(503), Reply(200, b"<html>"), Reply(200, b'{"vulns": 1}')]


@pytest.mark.parametrize("answer", [None, *(pytest.param(silent, marks=pytest.mark.slow) for silent in SILENT)])
def test_an_osv_that_says_nothing_is_a_fault(world: World, answer: Reply | None) -> None:
    with listening(lambda _: answer) as host:
        done = world.run("--osv", f"http://{host}/v1/query")

    assert_three_parts(done, 1, host, "--osv")
