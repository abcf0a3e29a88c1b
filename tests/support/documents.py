"""What README.md and docs/ show: blocks of code, the commands in them with their output, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.pages.marks import written
from tests.support.harness import ROOT

# The directories of the repository, beside which a clone may have others.
PLACES = ("benchmarks", "docs", "multinode_image", "images", "manifests", "scripts", "tests")
FENCE = "```"
INDENT = "    "
PROMPT = "$ "
# The start of what is shown whole: a Dockerfile or lines of one, an object of Kubernetes, a batch file, a picture in
# Mermaid, Python, a log.
FILE = re.compile(r"FROM |COPY |apiVersion: |#!|flowchart |import |output = |trainer\.|multinode: ")
COMMENT = re.compile(r"\s{2,}# .*$")
INLINE = re.compile(r"`([^`]+)`")
# What makes a piece of code within a sentence a command, and not a name.
STARTS = re.compile(r"(python3?|docker|skopeo|kubectl|mpirun|srun|sbatch|pip install|sudo|apt-get) |scripts/[a-z]")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"(#+) .*")
NOTE = re.compile(r"(?s)<!--.*?-->")


@dataclass(frozen=True)
class Shown:
    """A command, or a file, that a page shows: its line number there, and for a command what it prints."""

    page: str
    line: int
    text: str
    output: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A page of Markdown: its path below the root of the repository, and its text."""

    path: str
    text: str

    @property
    def written(self) -> str:
        """Return the text without what is made of sources, each line with its number."""
        return written(self.text)

    @property
    def blocks(self) -> list[tuple[int, list[str]]]:
        """List the blocks of code that are written as (number of the first line, lines)."""
        blocks: list[tuple[int, list[str]]] = []
        before = False
        for number, line, code in _lines(self.written):
            if code and not line.startswith(FENCE):
                blocks += [] if before else [(number, [])]
                blocks[-1][1].append(line)
            before = code and not line.startswith(FENCE)
        return [(number, _unindented(lines)) for number, lines in blocks]

    @property
    def shown(self) -> list[Shown]:
        """List every command and every whole file that is written, in blocks and within sentences."""
        inline = [
            Shown(self.path, number, text)
            for number, line, code in _lines(self.written) if not code
            for text in INLINE.findall(line) if STARTS.match(text)
        ]  # fmt: skip
        return [piece for number, lines in self.blocks for piece in _read(self.path, number, lines)] + inline

    @property
    def links(self) -> list[str]:
        """List the targets of all links."""
        return LINK.findall("\n".join(line for _, line, code in _lines(self.text) if not code))

    @property
    def anchors(self) -> set[str]:
        """List the headings as GitHub makes anchors of them."""
        titles = [line.lstrip("#") for _, line, code in _lines(self.text) if line.startswith("#") and not code]
        return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}

    @property
    def empty_headings(self) -> list[str]:
        """List the headings with nothing, or notes alone, before the end or a heading that is none below them."""
        lines = [(line, code) for _, line, code in _lines(NOTE.sub("", self.text)) if line.strip()]
        headings = [None if code else HEADING.fullmatch(line) for line, code in lines]
        followed = zip(headings, [*headings[1:], HEADING.fullmatch("# ")], strict=True)
        return [one[0] for one, after in followed if one and after and len(after[1]) <= len(one[1])]


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the number of each line, the line, and whether it belongs to a block of code."""
    fenced = indented = False
    last = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(FENCE):
            fenced = not fenced
            yield number, line, True
            continue
        indented = not fenced and line.startswith(INDENT) and (indented or not last.strip())
        yield number, line, fenced or indented
        last = line


def _unindented(lines: list[str]) -> list[str]:
    indented = all(line.startswith(INDENT) for line in lines)
    return [line.removeprefix(INDENT) for line in lines] if indented else lines


def _read(page: str, number: int, lines: list[str]) -> Iterator[Shown]:
    """Split a block: a file, a session with prompts and output, or one command after another."""
    if FILE.match(lines[0]):
        yield Shown(page, number, "\n".join(lines))
        return
    session = lines[0].startswith(PROMPT)
    start = 0
    while start < len(lines):
        end = start + 1
        while lines[end - 1].endswith("\\"):
            end += 1
        text = " ".join(line.rstrip("\\").strip() for line in lines[start:end])
        after = end
        while session and after < len(lines) and not lines[after].startswith(PROMPT):
            after += 1
        output = "\n".join(lines[end:after]) if session else None
        yield Shown(page, number + start, COMMENT.sub("", text.removeprefix(PROMPT)).strip(), output)
        start = after


def pages() -> list[Page]:
    """Read README.md, CONTRIBUTING.md and every page of docs/."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [Page(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


def every_page() -> list[Page]:
    """Read every file of Markdown in the repository, such as the changelog."""
    paths = sorted([*ROOT.glob("*.md"), *(path for name in PLACES for path in (ROOT / name).rglob("*.md"))])
    return [Page(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


def page(path: str) -> Page:
    """Read one page."""
    return Page(path, Path(ROOT / path).read_text())
