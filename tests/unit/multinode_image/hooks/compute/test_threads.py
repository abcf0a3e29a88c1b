"""What is said where torch has another number of threads than its rank was given; torch is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.compute import threads


def torch(count: int) -> Any:
    numbers = [count]
    return SimpleNamespace(get_num_threads=lambda: numbers[-1], set_num_threads=numbers.append, numbers=numbers)


@pytest.mark.parametrize(
    ("given", "has", "more", "rank", "said"),
    [
        ("2", 1, {"MKL_NUM_THREADS": "1"}, "0", ["MKL_NUM_THREADS=1"]),
        ("2", 1, {"OMP_THREAD_LIMIT": "1", "OMP_DYNAMIC": "true"}, "0", ["OMP_THREAD_LIMIT=1 OMP_DYNAMIC=true"]),
        ("2", 1, {}, "0", ["its OpenMP has fewer"]),
        ("2", 1, {"MKL_NUM_THREADS": "1"}, "1", []),  # rank 0 says it for all
        ("2", 2, {"MKL_NUM_THREADS": "2"}, "0", []),
        ("", 1, {"MKL_NUM_THREADS": "1"}, "0", []),  # nobody has given any
        ("2,1", 1, {}, "0", []),  # for nested levels
    ],
)  # fmt: skip
def test_what_changes_the_number_is_named(
    given: str, has: int, more: dict[str, str], rank: str, said: list[str],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in threads.OTHERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"OMP_NUM_THREADS": given, "RANK": rank, **more}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(threads, "SAID", [])
    threads.compare(torch(has))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said) and all(text in line for text, line in zip(said, lines, strict=True))


@pytest.mark.parametrize(("number", "lines"), [(2, 0), (4, 1)])
def test_a_script_that_changes_it_is_told_once(
    number: int, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(threads, "SAID", [])
    module = torch(2)
    threads.compare(module)
    for _ in range(2):
        module.set_num_threads(number)
    assert module.numbers == [2, number, number] and len(capsys.readouterr().err.splitlines()) == lines
