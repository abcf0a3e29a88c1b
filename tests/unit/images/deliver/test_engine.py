"""Which engine is taken, and what is said of those that are not."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from images.deliver import engine
from images.deliver.engine import PODMAN, CommandLine, EngineRow, choose_engine, find_engine
from images.host import process
from images.host.errors import Fault, WorldFault
from images.oci.image import Image, write_config
from images.platforms import AMD64
from images.store.store import Store

IMAGE = Image(("a:1",), write_config([], AMD64, {}, "2026-01-01T00:00:00Z"), b"{}", ())


@pytest.mark.parametrize(("code", "is_podmans"), [(0, False), (1, False), (125, True), (126, True), (127, True)])
def test_podman_says_what_it_cannot_start(monkeypatch: pytest.MonkeyPatch, code: int, is_podmans: bool) -> None:
    monkeypatch.setattr(process, "run", lambda *_, **__: process.Result(code, "", "an error" if code else ""))
    if is_podmans:
        with pytest.raises(WorldFault, match="podman could not start the image: an error"):
            CommandLine(PODMAN, {}).run(IMAGE, ["python3", "-c", "x"])
    else:
        assert CommandLine(PODMAN, {}).run(IMAGE, ["python3", "-c", "x"]) == ("an error" if code else None)


@pytest.mark.parametrize(
    ("is_there", "answer", "said"),
    [
        (True, process.Result(0, "amd64", ""), None),
        (False, process.Result(0, "amd64", ""), None),
        (True, process.Result(1, "", "first\nno subuid"), "podman does not work: no subuid"),
        (True, None, "podman does not work: no answer in 5 seconds"),
    ],
)
def test_podman_is_taken_where_it_works(
    monkeypatch: pytest.MonkeyPatch, is_there: bool, answer: process.Result | None, said: str | None
) -> None:
    asked = list[object]()
    monkeypatch.setattr(shutil, "which", lambda name, path: name if is_there and path == "/bin" else None)
    monkeypatch.setattr(process, "answer", lambda *given: asked.append(given) or answer)  # type: ignore[func-returns-value]

    with pytest.raises(WorldFault, match=said) if said else nullcontext():
        assert (engine.connect_program(PODMAN, {"PATH": "/bin"}, 5) is not None) is is_there
    command = ["podman", "info", "--format", "{{.Host.Arch}}"]
    assert asked == [(command, {"PATH": "/bin"}, "apt-get install podman", 5)] * is_there


@pytest.mark.parametrize("code", [0, 125])
def test_podman_loads_an_archive_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        assert [*command[:-1]] == ["podman", "load", "--quiet", "--input"]
        assert b"manifest.json" in Path(command[-1]).read_bytes()
        return process.Result(code, "", "no space left")

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(WorldFault, match="podman could not load the image: no space") if code else nullcontext():
        CommandLine(PODMAN, {}).load(IMAGE, Store(tmp_path))


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


TAKEN = Path("taken")
DENIED = WorldFault("Docker cannot be used", "/var/run/docker.sock (Permission denied)", "join the group")
ODD = WorldFault("podman does not work", "no subuid", "podman info")


class Answering:
    """An engine that is there."""

    name = "podman"


@pytest.mark.parametrize(
    ("rows", "asked", "elsewhere", "taken", "said"),
    [
        ([None, Answering], None, False, True, ""),
        ([DENIED, Answering], None, False, True, "note: the image goes into podman: Docker cannot be used: /var/run/"),
        ([None, None], None, False, False, "kept nowhere: no Docker, no podman; start Docker (or install podman), or"),
        ([DENIED, ODD], None, False, False, "(Permission denied); podman does not work: no subuid; join the group, or"),
        ([DENIED, None], None, True, False, "the image is not loaded: Docker cannot be used"),
        ([None, None], None, True, False, ""),
        ([Answering, None], False, False, False, ""),
    ],
)
def test_the_first_engine_that_answers_is_taken_and_an_image_that_is_kept_nowhere_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
    rows: Sequence[object], asked: bool | None, elsewhere: bool, taken: bool, said: str,
) -> None:  # fmt: skip
    answering(monkeypatch, rows)
    told = list[str]()

    chosen = choose_engine(asked, {}, told.append, elsewhere=elsewhere)

    assert (chosen is not None) is taken
    assert len(told) == bool(said) and all(said in line for line in told)


@pytest.mark.parametrize(
    ("rows", "value", "remedy"),
    [([None, None], "no Docker, no podman", "start Docker"), ([DENIED, None], DENIED.value, DENIED.remedy)],
)
def test_an_engine_that_has_to_be_there_is_missed(
    monkeypatch: pytest.MonkeyPatch, rows: Sequence[object], value: str, remedy: str
) -> None:
    answering(monkeypatch, rows)

    with pytest.raises(Fault) as caught:
        choose_engine(True, {}, pytest.fail)
    assert value in caught.value.value and caught.value.remedy.startswith(remedy)
    assert "--no-load --output FILE" in caught.value.remedy


def answering(monkeypatch: pytest.MonkeyPatch, rows: Sequence[object]) -> None:
    """Have these engines: one that answers, None, or the fault of one that cannot be used."""

    def connect(row: object, _: object, seconds: int) -> Any:
        assert seconds == 10, "a build waits no longer for who does not answer"
        if isinstance(row, Fault):
            raise row
        return row() if row is Answering else None

    named = zip(("Docker", "podman"), rows, strict=True)
    monkeypatch.setattr(engine, "ENGINES", [EngineRow(name, partial(connect, row)) for name, row in named])


def test_without_any_engine_nothing_is_found() -> None:
    assert find_engine({"PATH": "/nowhere", "DOCKER_HOST": "unix:///nowhere"}).engine is None
