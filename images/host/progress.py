"""What the build is doing, on stderr: a moving line on a terminal, elsewhere a line for each step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from images.host import process
from images.host.text import shown


class Progress:
    """The steps of one build."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # rich takes a log for a terminal where FORCE_COLOR is set, as in CI.
        self._moves = console.is_terminal and console.file.isatty() and not console.is_dumb_terminal
        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=console, transient=True, disable=not self._moves,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None, note="", visible=False)
        self._bytes = 0

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[None]:
        """Show that a step of `total` parts is going on."""
        self._bytes = 0
        self._bar.reset(self._task, description=escape(shown(text)), total=total, note="", visible=True)
        if not self._moves:
            self.say(f"{text} ...")
        with process.uninterrupted():
            self._bar.start()
        try:
            yield
        finally:
            self._bar.stop()

    def done(self) -> None:
        """Count one part of the step."""
        self._bar.advance(self._task)

    def advance(self, count: int) -> None:
        """Count bytes that came over the network."""
        self._bytes += count
        self._bar.update(self._task, note=f"{self._bytes / 1e6:.0f} MB")

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(shown(text), highlight=False, markup=False, soft_wrap=True)
