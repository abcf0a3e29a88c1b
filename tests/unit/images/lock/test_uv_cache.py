"""What is done when uv cannot use its own cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.host.process import Result
from images.host.store import Store
from images.lock import uv_cache
from tests.support import locks

CUT = "error: Failed to download `torch==2.13.0+cpu`\n  cause: Failed to deserialize cache entry\n  cause: IO error"
NO_DIRECTORY = "error: Failed to initialize cache at `/store/uv`\n  cause: cannot create it: File exists (os error 17)"
GOOD, BAD = Result(0, "found", ""), Result(2, "", CUT)


def answering(answers: list[Result]) -> Callable[[], Result]:
    return lambda: answers.pop(0)


def directory(path: Path) -> None:
    (path / "wheels-v8").mkdir(parents=True)
    (path / "wheels-v8/torch.rev").touch()


# What uv 0.13.9 says of a cache in which files and directories have changed places; {} is the cache.
CHANGED = [
    "error: Could not acquire lock\n  cause: failed to open file `{}/.lock`: Is a directory (os error 21)",
    "error: Failed to write to the client cache\n"
    "  cause: failed to create directory `{}/simple-v28/pypi`: File exists (os error 17)",
    "error: Failed to inspect Python interpreter from provided path at `/usr/bin/python`\n"
    "  cause: Failed to query Python interpreter\n"
    "  cause: failed to rename file from {}/interpreter-v5/.tmp to {}/interpreter-v5/a: Is a directory (os error 21)",
]


@pytest.mark.parametrize("said", [CUT, NO_DIRECTORY, *CHANGED])
@pytest.mark.parametrize("make", [directory, Path.touch, os.mkfifo, lambda path: path.symlink_to("/nowhere")])
def test_uv_is_asked_again_without_a_cache_that_it_cannot_use(
    make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    make(uv_cache.place(store))
    answers = [Result(2, "", said.replace("{}", str(uv_cache.place(store)))), GOOD]

    assert uv_cache.renewed(answering(answers), locks.context(store, None, {})) == GOOD

    assert not os.path.lexists(uv_cache.place(store)) and list((tmp_path / "aside").iterdir()) == []


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    directory(tmp_path / "elsewhere")
    uv_cache.place(store).symlink_to(tmp_path / "elsewhere")

    uv_cache.renewed(answering([BAD, GOOD]), locks.context(store, None, {}))

    assert (tmp_path / "elsewhere/wheels-v8/torch.rev").exists() and not uv_cache.place(store).is_symlink()


@pytest.mark.parametrize(
    "done",
    [
        GOOD,
        Result(1, "", "no version of torch==99"),
        Result(0, "found", f"warning: {CUT}"),
        Result(2, "", "error: Could not acquire lock\n  cause: failed to open file `/tmp/.lock`: (os error 21)"),
        Result(2, "", "error: Could not acquire lock\n  cause: Timeout (300s) when waiting for lock on `{}/.lock`"),
        Result(2, "", "error: Failed to initialize cache at `/store/uv`\n  cause: No space left (os error 28)"),
    ],
)
def test_any_other_answer_is_taken_with_the_cache_left(done: Result, tmp_path: Path) -> None:
    store = Store(tmp_path)
    directory(uv_cache.place(store))
    done = Result(done.code, done.out, done.err.replace("{}", str(uv_cache.place(store))))

    assert uv_cache.renewed(answering([done]), locks.context(store, None, {})) == done

    assert (uv_cache.place(store) / "wheels-v8/torch.rev").exists()


def test_a_new_cache_that_is_no_better_is_named(tmp_path: Path) -> None:
    """There is nothing in its place, as where another build has just removed it."""
    store = Store(tmp_path)

    with pytest.raises(WorldFault) as caught:
        uv_cache.renewed(answering([BAD, BAD]), locks.context(store, None, {}))

    assert caught.value.value == f"{tmp_path}/uv" and f"rm -rf {tmp_path}/uv; or set XDG" in caught.value.remedy


def test_a_cache_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(16, os.strerror(16))

    store = Store(tmp_path)
    context = locks.context(store, None, {})
    monkeypatch.setattr(uv_cache, "_remove", refuse)

    with pytest.raises(WorldFault) as caught:
        uv_cache.renewed(answering([BAD, GOOD]), context)

    assert caught.value.value == f"{tmp_path}/uv"
