"""Containers of a benchmark: how they are started, what is read of them, and that they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.host import containers
from benchmarks.host.containers import Setting
from benchmarks.host.scratch import Scratch
from images.host.errors import WorldFault

SCRATCH = Scratch(Path("/work"), "bench-1", 0.0)
LABEL = "multinode.benchmark=bench-1"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have an engine that prints a word for each command, and list the commands that it got."""
    commands: list[list[str]] = []
    prints = {"run": "c0ffee\n", "wait": "0\n", "logs": "steps\n", "inspect": "4711\n"}

    def call(command: Sequence[str], seconds: float) -> str:
        assert seconds
        commands.append([*command])
        return prints.get(command[1], "")

    monkeypatch.setattr(containers, "call", call)
    return commands


def answer(monkeypatch: pytest.MonkeyPatch, prints: Callable[[Sequence[str]], str]) -> None:
    monkeypatch.setattr(containers, "call", lambda command, seconds: prints(command))


BEGIN = ["docker", "run", "--detach", "--shm-size", "1g", "--label", LABEL]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting(), ["--network", "none"]),
        (Setting(limits=("--cpus", "2"), network="net"), ["--network", "net", "--cpus", "2"]),
        (Setting(environ={"A": "1", "B": ""}), ["--network", "none", "--env", "A=1", "--env", "B="]),
        (Setting(mounts={Path("/here"): "/there"}), ["--network", "none", "--volume", "/here:/there:ro"]),
        (Setting(name="node-0"), ["--network", "none", "--name", "node-0", "--hostname", "node-0"]),
        (Setting(entrypoint="sleep"), ["--network", "none", "--entrypoint", "sleep"]),
    ],
)
def test_a_container_is_given_what_its_setting_says(
    called: list[list[str]], setting: Setting, words: list[str]
) -> None:
    with containers.started(SCRATCH, "image:1", ["smoke", "--x"], setting) as found:
        assert found == "c0ffee"
        assert called == [[*BEGIN, *words, "image:1", "smoke", "--x"]]

    assert called[1:] == [["docker", "rm", "--force", "--volumes", "c0ffee"]]


def test_a_container_goes_where_its_measurement_fails(called: list[list[str]]) -> None:
    with pytest.raises(KeyboardInterrupt), containers.started(SCRATCH, "image:1", [], Setting()):
        raise KeyboardInterrupt

    assert called[-1] == ["docker", "rm", "--force", "--volumes", "c0ffee"]


def test_a_run_returns_what_was_printed(called: list[list[str]]) -> None:
    assert containers.run(SCRATCH, "image:1", ["smoke"], Setting(), 9.0) == "steps\n"
    assert [words[1] for words in called] == ["run", "wait", "logs", "rm"]


def test_a_training_that_fails_is_told_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, lambda command: "137\n" if command[1] == "wait" else "x" * 999 + "the end")

    with pytest.raises(WorldFault, match="a training failed: exit code 137: xxx") as caught:
        containers.outcome("c0ffee", 9.0)

    assert caught.value.value == f"exit code 137: {'x' * 493}the end"
    assert caught.value.remedy == "run it by hand"


def test_a_process_is_a_number(called: list[list[str]]) -> None:
    assert containers.process("c0ffee") == 4711


def test_a_network_has_the_label_and_goes(called: list[list[str]]) -> None:
    with pytest.raises(ZeroDivisionError), containers.network(SCRATCH) as name:
        assert called == [["docker", "network", "create", "--label", LABEL, name]]
        raise ZeroDivisionError

    assert name.startswith("bench-1-") and called[-1] == ["docker", "network", "rm", name]
