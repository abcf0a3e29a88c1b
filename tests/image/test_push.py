"""Builds that are pushed: the registry has what the build printed, and a push that is killed leaves no tag."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cut_connection import connection_to
from tests.support.harness import EXAMPLES, IMAGES, ROOT, built, call
from tests.support.registry import manifest, running
from tests.support.stand_in import digest
from tests.support.stores import USUAL


@pytest.fixture(scope="module")
def registry(module_path: Path) -> Iterator[str]:
    """Run a registry; skip where there is none."""
    with running(module_path / "registry") as host:
        yield host


def test_a_killed_push_leaves_no_tag_and_the_next_one_goes_on(registry: str) -> None:
    with connection_to(registry) as way:
        way.limit, way.stall = 150_000_000, True
        command = [sys.executable, "build.py", *USUAL, "--push", f"{way.host}/team/image:1"]
        with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as child:
            reached = way.reached.wait(timeout=600)
            os.killpg(child.pid, signal.SIGKILL)
        assert reached
        assert manifest(f"{registry}/team/image:1") is None
    with connection_to(registry) as way:
        answer = built(*USUAL, "--push", f"{way.host}/team/image:1", "--push", f"{registry}/team/image:2")

        pushed = manifest(f"{registry}/team/image:1") or b""
        assert digest(pushed) == answer["digest"]
        assert answer["pushed"] == [
            f"{name}@{answer['digest']}" for name in (f"{way.host}/team/image:1", f"{registry}/team/image:2")
        ]
        assert way.sent < answer["size"]

    assert manifest(f"{registry}/team/image:2") == pushed


def test_a_build_has_every_name_that_it_was_given(image: str) -> None:
    names = [f"{IMAGES}:four", f"localhost:5000/{IMAGES}:five"]

    answer = built("--examples", str(EXAMPLES), *(word for name in names for word in ("--tag", name)))

    loaded = [call(["docker", "image", "inspect", "--format", "{{.Id}}", name]).out.strip() for name in names]
    assert call(["docker", "rmi", *names]).code == 0
    assert (answer["image"], answer["tags"]) == (names[0], names)
    assert loaded == [answer["id"]] * 2
