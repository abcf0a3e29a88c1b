"""The command line of the sandbox, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.host.process import Result
from images.layers import sandbox
from images.layers.sandbox import Sandbox

LINE = sandbox.wrapped("/usr/bin/bwrap", ["/store/tree/ld.so", "--", "-I"], [Path("/store/tree")], {"A": "1 2"})


def pairs(words: list[str], option: str) -> list[tuple[str, str]]:
    """Return the two values of each place where an option is."""
    return [(words[at + 1], words[at + 2]) for at, word in enumerate(words) if word == option]


def test_the_command_comes_last_as_it_is() -> None:
    assert LINE[0] == "/usr/bin/bwrap"
    assert LINE[LINE.index("--") + 1 :] == ["/store/tree/ld.so", "--", "-I"]


@pytest.mark.parametrize(
    "option", ["--unshare-all", "--unshare-user", "--new-session", "--die-with-parent", "--cap-drop"]
)
def test_what_runs_in_a_sandbox_is_nobody_and_alone(option: str) -> None:
    assert option in LINE[: LINE.index("--")]
    assert LINE[LINE.index("--cap-drop") + 1] == "ALL"
    assert [LINE[LINE.index(each) + 1] for each in ("--uid", "--gid")] == ["65534", "65534"]
    assert "--share-net" not in LINE


def test_nothing_but_what_is_given_is_mounted() -> None:
    assert pairs(LINE, "--ro-bind") == [("/store/tree", "/store/tree")]
    assert pairs(LINE, "--bind") == []
    assert {word for word in LINE if word.startswith("--dev") or word.startswith("--proc")} == set()


def test_the_home_is_an_empty_directory() -> None:
    assert pairs(LINE, "--setenv") == [("HOME", sandbox.HOME), ("A", "1 2")]
    assert sandbox.HOME in [LINE[at + 1] for at, word in enumerate(LINE) if word == "--dir"]


def test_without_bubblewrap_there_is_none() -> None:
    found = sandbox.find({"PATH": "/nowhere"})

    assert found == Sandbox("", "no bwrap in PATH")
    assert "bubblewrap" in found.remedy


@pytest.mark.parametrize(("program", "remedy"), [("", "apt-get install bubblewrap"), ("/x/bwrap", "user namespaces")])
def test_nothing_runs_without_a_sandbox(program: str, remedy: str) -> None:
    with pytest.raises(WorldFault, match=rf"no sandbox .*: the reason\n  try: .*{remedy}"):
        Sandbox(program, "the reason").run(["/bin/false"], [], {}, "")


def test_a_sandbox_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").touch(0o755)
    tried: list[Sandbox] = []

    def run(self: Sandbox, *_: object) -> Result:
        tried.append(self)
        return Result(1, "", "no namespaces here\n")

    monkeypatch.setattr(Sandbox, "run", run)
    found = [sandbox.find({"PATH": str(tmp_path)}) for _ in range(2)]

    assert found == [Sandbox(f"{tmp_path}/bwrap", "no namespaces here")] * 2
    assert len(tried) == 1
