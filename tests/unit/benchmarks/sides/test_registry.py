"""The registry of a benchmark: what is stored in it, and what is said where it does not run."""

from __future__ import annotations

import io
import json
import subprocess
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.sides import registry
from images.host.errors import UserFault, WorldFault
from tests.support.stand_in import write


def test_what_is_stored_is_the_data_of_the_blobs(tmp_path: Path) -> None:
    place = "registry/docker/registry/v2/blobs/sha256"
    write(tmp_path, {f"{place}/aa/data": b"123", f"{place}/bb/data": b"4567", "registry/docker/link": b"sha256:aa"})
    (tmp_path / "registry/docker/data").mkdir()

    assert registry.stored(tmp_path) == 7


def test_the_layers_are_those_of_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: urllib.request.Request, timeout: float) -> io.BytesIO:
        assert request.full_url == "http://127.0.0.1:5000/v2/a/b/manifests/1" and timeout
        assert "application/vnd.oci.image.manifest.v1+json" in str(request.get_header("Accept"))
        return io.BytesIO(json.dumps({"layers": [{"size": 3}, {"size": 4}]}).encode())

    monkeypatch.setattr(urllib.request, "urlopen", answer)

    assert registry.layers("127.0.0.1:5000", "a/b", "1") == [3, 4]


def test_a_program_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("docker-registry")

    write(tmp_path, {"registry/left": b"by an earlier run"})
    monkeypatch.setattr(subprocess, "Popen", missing)

    with pytest.raises(UserFault, match="a program is missing: docker-registry") as caught:
        registry.running(tmp_path).__enter__()

    assert caught.value.remedy == "apt-get install docker-registry skopeo"
    assert not (tmp_path / "registry").exists()
    assert f"rootdirectory: {tmp_path}/registry}}" in (tmp_path / "registry.yml").read_text()


class Child:
    """Stand for a registry that has ended, or goes on."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def poll(self) -> int | None:
        return self.code


@pytest.mark.parametrize(("code", "clock"), [(1, [0.0, 0.0]), (None, [0.0, 30.1])])
def test_a_registry_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, code: int | None, clock: list[float]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(registry, "time", SimpleNamespace(monotonic=lambda: clock.pop(0)))

    with pytest.raises(WorldFault, match=r"the registry did not start: 127\.0\.0\.1:5000") as caught:
        registry.await_answer("127.0.0.1:5000", cast(Any, Child(code)))

    assert caught.value.remedy == "run docker-registry by hand"


def test_a_registry_that_answers_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[OSError | io.BytesIO] = [ConnectionRefusedError(), ConnectionResetError(), io.BytesIO()]

    def answer(*_: object, **__: object) -> io.BytesIO:
        found = answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    monkeypatch.setattr(registry, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None))

    registry.await_answer("127.0.0.1:5000", cast(Any, Child(None)))

    assert answers == []
