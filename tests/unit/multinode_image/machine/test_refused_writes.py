"""Why a file cannot be written though there is room: limit and quota are made up."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from multinode_image.machine.refused_writes import explain_refused, find_refused, find_target, try_beside

LIMIT = 4096


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a limit that nobody feels: a real one ends the tests, whose log is a file."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (LIMIT, LIMIT))


def save(f: Path | str) -> None:
    """Fail as torch.save does."""
    writer = object()
    raise RuntimeError(f"unexpected pos 704 vs 598 of {type(writer)}")


def fail(f: Path | str) -> RuntimeError:
    try:
        save(f)
    except RuntimeError as error:
        return error
    raise AssertionError


def wrap(error: Exception) -> Exception:
    """Return an error that hides the one that it came from, whose frames count."""
    try:
        raise ValueError("the checkpoint was not written") from error
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(("size", "number"), [(LIMIT, errno.EFBIG), (10, None)], ids=["reached", "not reached"])
def test_the_limit_of_a_file_is_found(size: int, number: int | None, tmp_path: Path, limited: None) -> None:
    path = tmp_path / "optimizer.pt"
    path.write_bytes(bytes(size))

    refused = find_refused(fail(path))
    assert (refused and refused.errno) == number
    assert refused is None or refused.filename == str(path)


def test_without_a_file_the_limit_is_taken_for_the_cause(limited: None) -> None:
    refused = find_refused(RuntimeError("basic_ios::clear: iostream error"))

    assert refused is not None and refused.errno == errno.EFBIG


def test_the_kernel_is_asked_again_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "optimizer.pt"
    path.write_bytes(b"half")

    def refuse(number: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    assert find_refused(wrap(fail(path))) is None, "nothing is refused here"
    monkeypatch.setattr(os, "fsync", refuse)
    refused = find_refused(wrap(fail(str(path))))
    assert refused is not None and refused.errno == errno.EDQUOT
    assert [each.name for each in tmp_path.iterdir()] == ["optimizer.pt"], "no probe is left"


@pytest.mark.parametrize("value", ["no such file", 7, None])
def test_what_is_no_file_is_no_target(value: object) -> None:
    assert find_target(fail(value)) == ""  # type: ignore[arg-type]


def test_a_directory_that_is_gone_says_so(tmp_path: Path) -> None:
    refused = try_beside(str(tmp_path / "gone/optimizer.pt"))

    assert refused is not None and refused.errno == errno.ENOENT


@pytest.mark.parametrize(
    ("number", "fact"),
    [
        (errno.EFBIG, "rank 3 has reached the limit of a file's size of 2,097,152 bytes for each process"),
        (errno.EDQUOT, "the disk quota of rank 3 is used up"),
        (errno.EACCES, ""),
    ],
)
def test_a_number_of_the_kernel_is_said_in_words(number: int, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 << 20, 2 << 20))

    found = explain_refused(number, "/workspace/output/optimizer.pt", "rank 3")
    assert found is None if not fact else found is not None and found.fact.startswith(fact)
