"""The command line of the sandbox, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.layers import sandbox
from images.layers.sandbox import Sandbox
from images.platforms import AMD64


@pytest.fixture
def line() -> list[str]:
    """Return the line that runs a command, which begins with what opens the filter."""
    with sandbox.around("/usr/bin/bwrap", ["/store/tree/ld.so", "--", "-I"], [Path("/store/tree")], AMD64) as found:
        assert Path(found[3]).read_bytes() == sandbox.filter_of(AMD64)
        return found[4:]


def pairs(words: list[str], option: str) -> list[tuple[str, str]]:
    """Return the two values of each place where an option is."""
    return [(words[at + 1], words[at + 2]) for at, word in enumerate(words) if word == option]


def test_the_command_comes_last_as_it_is(line: list[str]) -> None:
    assert line[0] == "/usr/bin/bwrap"
    assert line[line.index("--") + 1 :] == ["/store/tree/ld.so", "--", "-I"]


def test_what_runs_in_a_sandbox_is_nobody_and_alone(line: list[str]) -> None:
    options = line[: line.index("--")]

    assert {"--unshare-all", "--unshare-user", "--new-session", "--die-with-parent"} <= {*options}
    assert [options[options.index(each) + 1] for each in ("--uid", "--gid", "--cap-drop")] == ["65534", "65534", "ALL"]
    assert "--share-net" not in options


def test_nothing_but_what_is_given_is_seen(line: list[str]) -> None:
    assert pairs(line, "--ro-bind") == [("/store/tree", "/store/tree")]
    assert pairs(line, "--bind") == []
    assert {word for word in line if word.startswith("--dev") or word.startswith("--proc")} == set()
    assert pairs(line, "--setenv") == [("HOME", sandbox.HOME)]
    assert sandbox.HOME in [line[at + 1] for at, word in enumerate(line) if word == "--dir"]


def test_without_bubblewrap_there_is_none() -> None:
    assert sandbox.find({"PATH": "/nowhere"}, AMD64) == Sandbox("", "no bwrap in PATH", sandbox.INSTALL)


def test_a_sandbox_is_tried_once(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho >>{tmp_path}/tried\necho no namespaces here >&2\nexit 1\n")
    program.chmod(0o755)

    found = [sandbox.find({"PATH": str(tmp_path)}, AMD64) for _ in range(2)]

    assert found == [Sandbox(str(program), "no namespaces here", sandbox.ALLOW)] * 2
    assert (tmp_path / "tried").read_text() == "\n"
