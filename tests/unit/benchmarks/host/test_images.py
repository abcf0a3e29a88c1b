"""Images in the engine: their size, and how their names go."""

from __future__ import annotations

import pytest

from benchmarks.host import images


def test_the_size_is_that_of_the_unpacked_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "call", lambda words: "1248100000\n" if words[-1] == "a:1" else "")

    assert images.unpacked_size("a:1") == 1_248_100_000


def test_a_name_goes_even_if_a_container_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(images, "call", called.append)

    images.remove_image("a:1")

    assert called == [["docker", "rmi", "--force", "a:1"]]
