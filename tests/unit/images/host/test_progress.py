"""What a build says of its steps: lines in a log, a moving line on a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from images.host.background import Progress


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a terminal that can move, whatever the one of the tests is."""
    monkeypatch.setenv("TERM", "xterm")


def said(out: StringIO) -> str:
    return out.getvalue()


class Terminal(StringIO):
    """A file that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def moving() -> tuple[Terminal, Progress]:
    """Make the progress on a terminal, without colours."""
    out = Terminal()
    return out, Progress(Console(file=out, width=120, color_system=None))


@pytest.mark.parametrize(
    ("variable", "value", "out"),
    [
        ("COLUMNS", "40", StringIO),
        ("FORCE_COLOR", "1", StringIO),
        ("TTY_COMPATIBLE", "1", StringIO),
        ("TTY_COMPATIBLE", "0", Terminal),
        ("TERM", "dumb", Terminal),
        ("TERM", "unknown", Terminal),
    ],
)
def test_a_place_where_nothing_can_move_has_lines(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, out: type[StringIO]
) -> None:
    monkeypatch.setenv(variable, value)
    file = out()
    progress = Progress(Console(file=file, width=40))

    with progress.step("fetching the base", 2):
        progress.done()
        progress.advance(5_000_000)
    progress.say("note: " + "a long line " * 9)

    assert said(file).splitlines() == ["fetching the base ...", "note: " + "a long line " * 9]


def test_a_terminal_has_a_line_that_moves_and_goes() -> None:
    out, progress = moving()

    with progress.step("fetching [the] base", 2):
        progress.done()
        progress.advance(2_000_000)
        progress.advance(3_000_000)

    assert "fetching [the] base" in said(out) and "1/2" in said(out) and "5 MB" in said(out)
    assert "..." not in said(out)
    assert said(out).endswith("\x1b[2K")  # which removes the line


@pytest.mark.parametrize("text", ["[bold]a[/bold]", "https://user:S3CRET@host/x", "a\x1b[31mb", ":smile:"])
def test_a_text_of_others_is_no_markup_and_no_command(text: str) -> None:
    out = StringIO()
    progress = Progress(Console(file=out, width=200, emoji=False))

    with progress.step(text):
        progress.say(text)

    assert "S3CRET" not in said(out) and "\x1b" not in said(out)
    assert ("S3CRET" in text) or said(out).count(text.replace("\x1b", "\\x1b")) == 2
