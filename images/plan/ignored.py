"""Which files of a directory stay out of an image: by .dockerignore (moby/patternmatcher), and those of secrets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from multinode_image.printing.shapes import LONGEST, find_kind

# Names, whatever the case of their letters, of files and directories that hold secrets whatever is in them, and of
# files that are none, though like one; * is one letter or more. A page has both.
NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf",
    ".dockercfg", ".docker/config.json", ".htpasswd", ".s3cfg", ".boto", ".databrickscfg", ".vault-token",
    "kaggle.json", "rclone.conf", ".ssh", ".aws", ".azure", ".kube", ".gnupg", ".config/gcloud",
    "application_default_credentials.json", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.ppk",
)  # fmt: skip
SAMPLES = (
    ".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "sample.env", "template.env",
)  # fmt: skip


def _compile(names: Iterable[str], end: str = "") -> re.Pattern[str]:
    """Return what the paths match that end with one of these names, and what may follow."""
    either = "|".join(re.escape(name).replace(r"\*", "[^/]+") for name in names)
    return re.compile(f"(?:.*/)?(?:{either}){end}", re.IGNORECASE)


PRIVATE, SAMPLE = _compile(NAMES, "(?:/.*)?"), _compile(SAMPLES)
WIDEST = 4  # bytes of a letter in UTF-32


def has_private_name(path: str) -> bool:
    """Return whether a file is one of secrets by its path."""
    return PRIVATE.fullmatch(path) is not None and SAMPLE.fullmatch(path) is None


class SecretSearch:
    """A search for a secret in a file that is read in parts."""

    def __init__(self) -> None:
        self._end = b""

    def find(self, part: bytes) -> str | None:
        """Return the kind of a secret in the next part, or in it and the one before; None without one."""
        kind = find_kind(self._end + part)
        self._end = (self._end + part)[-LONGEST * WIDEST :]
        return kind


# What a .dockerignore leaves out of a directory, as Docker reads it (moby/patternmatcher; Docker, "Build context").
#
# Docker's engine of regular expressions takes time in proportion to pattern and path, Python's may take for ever, and
# the patterns may be a stranger's. So a pattern is followed through a path with all places at once that it may have
# reached.

# As if every .dockerignore began with it, so that `!` takes any of it in: history, and what Python makes anew.
USUAL = ("**/.git", "**/.hg", "**/.svn", "**/__pycache__", ".dockerignore")
# A part of a pattern: gaps, and letters, of which sets and escaped ones are the same in a regular expression.
PART = re.compile(r"(?P<deep>\*\*/?)|(?P<star>\*)|(?P<one>\?)|(?P<same>\[\^?(?:\\.|[^\]\\[])+\]|\\.)|.", re.DOTALL)
STAR, DEEP, REST = "[^/]*", "(?:.*/)?", ".*"  # what a gap is as a regular expression


class Step(NamedTuple):
    """A gap that may be passed by, none at the start of a pattern, and what each letter behind it is."""

    gap: str
    letters: tuple[str, ...]
    regex: re.Pattern[str]  # of all letters


class Pattern(NamedTuple):
    """A line: what it is about, and whether it takes in again what an earlier one leaves out."""

    steps: tuple[Step, ...]
    keeps: bool

    def matches(self, path: str) -> bool:
        """Return whether it is about a path, or about a directory above it."""
        ends = [0]
        for step in self.steps:
            tries = (step.regex.match(path, start) for start in _reached(step.gap, ends, path))
            if not (ends := sorted({match.end() for match in tries if match})):
                return False
        return any(path[end : end + 1] in ("", "/") for end in ends)

    def may_match_below(self, directory: str) -> bool:
        """Return whether a path below a directory could be one that it is about, whatever that path is."""
        path, ends = f"{directory}/", [0]
        for step in self.steps:
            starts = [*_reached(step.gap, ends, path)]
            if (starts and step.gap in (DEEP, REST)) or any(_begins(step, path, start) for start in starts):
                return True
            tries = (step.regex.match(path, start) for start in starts)
            ends = sorted({match.end() for match in tries if match})
        return False


def parse_lines(text: str) -> list[Pattern]:
    """Return the lines of a file, behind the usual ones.

    Raises ValueError with a line that is no pattern.
    """
    return [*map(_parse_pattern, (*USUAL, *_listed_lines(text.removeprefix("\ufeff").splitlines())))]


def leaves_out(patterns: Sequence[Pattern], path: str) -> bool:
    """Return whether a path, relative to the directory, stays out: the last line that is about it decides."""
    return next((not one.keeps for one in reversed(patterns) if one.matches(path)), False)


def may_take_in(patterns: Sequence[Pattern], directory: str) -> bool:
    """Return whether anything below a directory may be taken in, though the directory itself may stay out."""
    for one in reversed(patterns):
        if one.keeps and (one.matches(directory) or one.may_match_below(directory)):
            return True
        if not one.keeps and one.matches(directory):
            return False
    return True


def _listed_lines(lines: Iterable[str]) -> Iterator[str]:
    return (line.strip() for line in lines if line.strip() and not line.startswith("#"))


def _parse_pattern(line: str) -> Pattern:
    text = line.removeprefix("!").strip()
    try:
        if not text:
            raise ValueError("nothing after it")
        return Pattern(tuple(_list_steps(posixpath.normpath(text).lstrip("/"))), line.startswith("!"))
    except (ValueError, re.error) as error:
        raise ValueError(f"{line}: {error}") from error


def _list_steps(clean: str) -> Iterator[Step]:
    gap, letters = "", list[str]()
    for part in PART.finditer(clean):
        if part.lastgroup not in ("deep", "star"):
            letters.append("[^/]" if part.lastgroup == "one" else part[0] if part.lastgroup else re.escape(part[0]))
            continue
        yield _step(gap, letters)
        letters = []
        if part.lastgroup == "star":
            gap = STAR
        else:  # of a plain end behind a first ** it is not asked where a name begins
            is_suffix = not part.start() and part[0] == "**" and not re.search(r"[*?\\[]", clean[2:])
            gap = REST if part.end() == len(clean) or is_suffix else DEEP
    yield _step(gap, letters)


def _step(gap: str, letters: Sequence[str]) -> Step:
    return Step(gap, tuple(letters), re.compile("".join(letters), re.DOTALL))


def _reached(gap: str, ends: Sequence[int], path: str) -> Iterable[int]:
    """Return the places, in order, that can be reached over a gap from places in order."""
    if gap in ("", REST):
        return range(ends[0], len(path) + 1) if gap and ends else ends
    if gap == DEEP:
        behind = (at for at in range(ends[0] + 1, len(path) + 1) if path[at - 1] == "/") if ends else ()
        return sorted({*ends, *behind})
    return _same_part(ends, path)


def _same_part(ends: Iterable[int], path: str) -> Iterator[int]:
    passed = -1
    for end in ends:
        if end > passed:
            slash = path.find("/", end)
            passed = slash if slash >= 0 else len(path)
            yield from range(end, passed + 1)


def _begins(step: Step, path: str, start: int) -> bool:
    """Return whether a path ends within the letters of a step, and is like them so far."""
    left = len(path) - start
    pairs = zip(step.letters, path[start:], strict=False)
    return left <= len(step.letters) and all(re.match(letter, one, re.DOTALL) for letter, one in pairs)
