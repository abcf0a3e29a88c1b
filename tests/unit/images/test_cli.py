"""The command line: which command, what it prints where, with which exit code."""

from __future__ import annotations

import datetime
import errno
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from images import cli
from images.host import errors
from tests.support.streams import full, unread

WORLD = cli.World({}, datetime.date(2026, 11, 20), lambda: 0.0)


def run(words: Sequence[str]) -> int:
    return cli.main(words, WORLD)


@pytest.mark.parametrize(
    ("words", "lacks"),
    [("list", False), ("list --json", False), ("plan", False), ("list --platform linux/arm64", True)],
)
def test_commands_that_only_plan_print_the_versions(
    words: str, lacks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 0
    said = capsys.readouterr().out
    assert "2.1" in said and ("not made for linux/arm64" in said) is lacks


@pytest.mark.parametrize(
    ("words", "value", "remedy"),
    [
        (["plan", "--as-of", "2026-11-22"], "2026-11-22 (today: 2026-11-20, UTC)", "--as-of 2026-11-19"),
        (["lock", "--output", "/nowhere/x"], "/nowhere", "--output in a directory that you may write to"),
        (["lock", "--output", "/tmp"], "/tmp", "--output with the path of a file"),
        (["bundle", "--output", "/usr"], "/usr", "another --output, or remove it"),
        (["--push", "oci:layout"], "'oci:layout'", "--push HOST/NAME:TAG"),
        (["--push", "registry.example/UPPER"], "registry.example/UPPER", "--push registry.example/upper"),
    ],
)
def test_what_cannot_be_done_gets_three_parts(
    words: list[str], value: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ") and value in first
    assert second == f"  try: {remedy}"


@pytest.mark.parametrize(
    ("words", "environ", "value"),
    [
        (["lock", "--wheelhouse", "wh\udcff"], {}, "wh\\udcff"),
        (["plan", "--examples=https://a\udcff/"], {}, "--examples=https://a\\udcff/"),
        (["sbom", "oci:x"], {"PIP_INDEX_URL": "https://u:secret\udcff/simple"}, "PIP_INDEX_URL"),
        (["sbom", "oci:x"], {"PIP_FIND_LINKS": "wh\udcff"}, "PIP_FIND_LINKS"),
        (["sbom", "oci:x"], {"XDG_CACHE_HOME": "/wh\udcff"}, "XDG_CACHE_HOME /wh\\udcff/multinode"),
        (["sbom", "oci:x"], {"HOME": "/wh\udcff"}, "XDG_CACHE_HOME /wh\\udcff/.cache/multinode"),
        (["sbom", "oci:x"], {"TMPDIR": "/wh\udcff"}, "TMPDIR /wh\\udcff"),
    ],
)
def test_what_is_not_utf_8_is_refused_where_it_enters(
    words: list[str], environ: dict[str, str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words, cli.World(environ, WORLD.today, WORLD.clock)) == 2

    assert capsys.readouterr().err.startswith(f"error: that is not UTF-8: {value}\n")


@pytest.mark.parametrize(("given", "code"), [((), 130), ((signal.SIGTERM,), 143), ((signal.SIGHUP,), 129)])
def test_a_signal_is_the_exit_code(
    given: tuple[signal.Signals, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt(*given)

    monkeypatch.setitem(cli.PLANNING, "list", stop)

    assert run(["list"]) == code
    said = "interrupted; what was finished is kept, run the same command to go on\n"
    assert capsys.readouterr().err == said


def test_a_push_without_skopeo_is_refused_before_the_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--push", "registry.example/a:1"], cli.World({"PATH": "/nowhere"}, WORLD.today, WORLD.clock)) == 1

    first, second = capsys.readouterr().err.splitlines()
    assert "skopeo" in first and "registry.example/a:1" in first
    assert "apt-get install skopeo" in second


@pytest.mark.parametrize(
    ("error", "rows"),
    [
        (
            OSError(errno.ENOSPC, "full", "/store/a.whl", None, "/small/a.whl"),
            ("full: /small/a.whl", errors.ROOM),
        ),
        (PermissionError(errno.EACCES, "no", "/a"), ("no: /a", errors.USE)),
    ],
)
def test_what_the_system_refuses_is_said_of_the_file_that_was_written(
    error: OSError, rows: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setitem(cli.PLANNING, "list", refuse)

    assert run(["list"]) == 1
    assert capsys.readouterr().err == "error: {}\n  try: {}\n".format(*rows)


@pytest.mark.parametrize("words", [["plan", "--json"], ["list", "--json"]])  # less and more than a buffer
@pytest.mark.parametrize(
    ("stream", "rows"),
    [
        (full, ("No space left on device: stdout", errors.ROOM)),
        (unread, ("Broken pipe: stdout", errors.READ)),
    ],
)
def test_a_result_that_cannot_be_printed_is_said_once(
    words: list[str],
    stream: Callable[[], TextIO],
    rows: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = stream()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        assert run(words) == 1
    out.close()  # as Python does at its end: nothing more is said

    assert capsys.readouterr().err == "error: {}\n  try: {}\n".format(*rows)


def test_a_command_runs_without_a_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    assert run(["list", "--json"]) == 0


SECRET = "https://user:S3CRET@127.0.0.1:9/x?X-Amz-Signature=S3CRET"


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--examples", SECRET],
        ["plan", "--examples", SECRET, "--json"],
        ["plan", "--base", "user:S3CRET@host/x:1", "--python", "3.11"],
        ["plan", SECRET],
        *(["plan", option, SECRET] for option in ("--torch", "--as-of", "--tasks", "--python", "--backend", "--tag")),
        *(["build", option, SECRET] for option in ("--push", "--output", "--jobs", "--lock", "--offline")),
        *([command, name] for command in ("sbom", "verify") for name in (SECRET, "user:S3CRET@host/x")),
    ],
)
def test_no_secret_of_an_address_is_printed(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = ["--no-load"] if words[0] == "build" else []
    cli.main([*words, *load], cli.World({"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}, WORLD.today, WORLD.clock))

    told = capsys.readouterr()
    assert "S3CRET" not in told.out + told.err and told.out + told.err


# Nothing of this is a value of any option below; what may be one, such as a path that is not there, is left out.
ODD = ("", " ", "\n", "--", "\t", "\r\n ")
NAMES = (
    *ODD, "x" * 5000, "a\nb", "-x", "..", "\udcff", "\u202e", "[/x]", ",", ":", "@", "/", "~", "\x1b[31m", "3.\u0661",
)  # fmt: skip
PATHS = ("--examples", "--wheelhouse", "--lock", "--offline", "--output")
CHOSEN = ("--torch", "--transformers", "--python", "--backend", "--as-of", "--tasks", "--tag", "--push", "--jobs")
HOSTILE = [
    *((["build", "--no-load", "--torch=0", f"{option}={value}"]) for option in PATHS for value in ODD),
    *((["build", "--no-load", f"{option}={value}"]) for option in CHOSEN for value in NAMES),
    *((["plan", "--python=3.11", f"--base={value}"]) for value in NAMES),
    *((["build", "--no-load", f"--jobs={value}"]) for value in ("\u0662", "1_0", "0", "-1", "1" * 5000, "2.0", "0x2")),
    *(([command, value]) for command in ("sbom", "verify") for value in NAMES if value not in ("..", "/")),
]


def test_an_odd_value_gets_three_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = cli.World({"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "HOME": "/"}, WORLD.today, WORLD.clock)
    for words in HOSTILE:
        assert cli.main(words, world) in (1, 2), words

        first, second = capsys.readouterr().err.splitlines()[-2:]
        assert first.startswith("error: ") and first.count(": ") >= 2, words
        assert second.startswith("  try: "), words


def test_a_package_that_only_one_step_needs_is_named_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def handler(*_: object) -> None:
        raise ModuleNotFoundError(name="pydantic")

    monkeypatch.setattr(cli, "_handler", lambda _: (handler, dict))

    assert run(["build"]) == 1
    assert "a Python package is missing: pydantic\n  try: pip install -e ." in capsys.readouterr().err


def test_a_file_or_a_pipe_gets_long_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Of eighty letters addresses would be broken."""
    world = cli.World({}, datetime.date(2026, 11, 20), lambda: 0)

    assert cli.main(["list"], world) == 0

    assert 80 < max(map(len, capsys.readouterr().out.splitlines())) <= cli.WIDE
