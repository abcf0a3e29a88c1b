"""Builds that are pushed: the registry has what the build printed, and a push that is killed leaves no tag."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import IMAGES, ROOT, built, call
from tests.support.line import line
from tests.support.registry import running
from tests.support.stand_in import digest
from tests.support.stores import SMALL


@pytest.fixture(scope="module")
def registry(module_path: Path) -> Iterator[str]:
    """Run a registry; skip where there is none."""
    for program in ("docker-registry", "skopeo"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt-get install {program}")
    with running(module_path / "registry") as host:
        yield host


def manifest(name: str) -> bytes | None:
    """Return a manifest as the registry has it, or None."""
    done = call(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}"])
    return done.out.encode() if done.code == 0 else None


def test_a_killed_push_leaves_no_tag_and_the_next_one_goes_on(registry: str) -> None:
    with line(registry) as way:
        way.limit, way.stall = 150_000_000, True
        command = [sys.executable, "build.py", *SMALL, "--push", f"{way.host}/team/image:1"]
        with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as child:
            assert way.reached.wait(timeout=600)
            os.killpg(child.pid, signal.SIGKILL)
        assert manifest(f"{registry}/team/image:1") is None
    with line(registry) as way:
        answer = built(*SMALL, "--push", f"{way.host}/team/image:1", "--push", f"{registry}/team/image:2")

        found = manifest(f"{registry}/team/image:1") or b""
        assert digest(found) == answer["digest"]
        assert answer["pushed"] == [
            f"{name}@{answer['digest']}" for name in (f"{way.host}/team/image:1", f"{registry}/team/image:2")
        ]
        assert way.sent < answer["size"]

    assert manifest(f"{registry}/team/image:2") == found


def test_an_image_has_every_name_that_it_was_given(engine: None, tmp_path: Path) -> None:
    names = [f"{IMAGES}:one", f"localhost:5000/{IMAGES}:two"]
    words = [word for name in names for word in ("--tag", name)]
    options = [option for option in SMALL if option != "--no-load"]

    answer = built(*options, *words, "--output", str(tmp_path / "image.tar"))

    assert (answer["image"], answer["tags"]) == (names[0], names)
    loaded = [call(["docker", "image", "inspect", "--format", "{{.Id}}", name]).out.strip() for name in names]
    assert loaded == [answer["id"]] * 2
    with_names = json.loads(call(["tar", "-xOf", str(tmp_path / "image.tar"), "manifest.json"]).out)
    assert with_names[0]["RepoTags"] == names
    again = built(*options, "--tag", f"{IMAGES}:three")
    assert again["id"] == answer["id"]
    call(["docker", "rmi", *names, f"{IMAGES}:three"])
