"""What an engine's program is called with, and what is said where it fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from images.deliver.engine import PODMAN, CommandLine
from images.host import process
from images.host.errors import WorldFault
from images.oci.image import Image, write_config
from images.platforms import AMD64

IMAGE = Image(("a:1",), write_config([], AMD64, {}, "2026-01-01T00:00:00Z"), b"{}", ())


@pytest.mark.parametrize(("code", "is_podmans"), [(0, False), (1, False), (125, True), (126, True), (127, True)])
def test_podman_runs_an_image_without_a_network_and_says_what_it_cannot_start(
    monkeypatch: pytest.MonkeyPatch, code: int, is_podmans: bool
) -> None:
    commands: list[str] = []

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        commands.append(" ".join(command))
        return process.Result(code, "", "an error" if code else "")

    monkeypatch.setattr(process, "run", run)
    if is_podmans:
        with pytest.raises(WorldFault, match="podman could not start the image: an error"):
            CommandLine(PODMAN, {}).run(IMAGE, ["python3", "-c", "x"])
    else:
        assert CommandLine(PODMAN, {}).run(IMAGE, ["python3", "-c", "x"]) == ("an error" if code else None)
    assert len(commands) == 1
    assert commands[0].startswith("podman run --rm --name multinode-")
    assert " --network none --cap-drop all " in commands[0]
    assert commands[0].endswith(" --entrypoint python3 a:1 -c x")


def test_an_interrupt_ends_the_container_of_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        commands.append(command)
        if command[1] == "run":
            raise KeyboardInterrupt
        return process.Result(0, "", "")

    monkeypatch.setattr(process, "run", run)

    with pytest.raises(KeyboardInterrupt):
        CommandLine(PODMAN, {}).run(IMAGE, ["python3"])
    begun, removed = commands
    assert "--sig-proxy=false" in begun  # the first process of a container ignores what podman would pass on
    assert removed == ["podman", "rm", "--force", "--ignore", begun[begun.index("--name") + 1]]


@pytest.mark.parametrize(("exists", "saves", "has"), [(0, 0, True), (1, 125, False), (125, 0, None), (0, 125, None)])
def test_only_an_image_that_is_absent_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: int, saves: int, has: bool | None
) -> None:
    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        code = exists if command[1] == "image" else saves
        return process.Result(code, "", "Error: no space left" if code else "")

    monkeypatch.setattr(process, "run", run)

    if has is None:
        with pytest.raises(WorldFault, match=r"could not save the image: a:1 \(Error: no space left\)"):
            CommandLine(PODMAN, {}).save("a:1", tmp_path)
    else:
        assert CommandLine(PODMAN, {}).save("a:1", tmp_path) == has
