"""Which Docker clients drive BuildKit."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.sides import clients
from images.host.errors import UserFault, WorldFault

BUILTIN, BUILDX, NEITHER = {"build --help": "--secret", "--version": "Docker version 20.10.24+dfsg1, build 1"}, {
    "buildx version": "v0.14", "build --help": "--secret", "--version": "Docker version 28.2.2, build 2",
}, {"build --help": "-t", "--version": "Docker version 28.2.2, build 2"}  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Answer for clients: each is a directory's name -> what it says."""
    said = {"builtin": BUILTIN, "buildx": BUILDX, "neither": NEITHER}

    def call(words: list[str], seconds: float) -> str:
        known = said[Path(words[0]).parent.name]
        if " ".join(words[1:]) not in known:
            raise WorldFault("a command failed", words[0], "another")
        return known[" ".join(words[1:])]

    monkeypatch.setattr(clients, "call", call)
    for name in said:
        (tmp_path / name).mkdir()
        (tmp_path / name / "docker").touch(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (["builtin"], [("builtin", "")]),
        (["neither", "builtin"], [("builtin", "")]),
        (["buildx"], [("buildx", "")]),
        (["builtin", "buildx", "builtin"], [("builtin", ""), ("buildx", " buildx")]),
    ],
)
def test_the_first_of_each_kind_is_taken(path: list[str], found: list[tuple[str, str]], machine: Path) -> None:
    chosen = clients.find({"PATH": ":".join(str(machine / each) for each in path)})

    assert [(Path(each.path).parent.name, each.suffix) for each in chosen] == found


def test_a_client_is_named_by_its_release(machine: Path) -> None:
    assert clients.find({"PATH": str(machine / "buildx")})[0].title == "Docker version 28.2.2, buildx"
    assert clients.find({"PATH": str(machine / "builtin")})[0].title == "Docker version 20.10.24"


def test_a_machine_without_a_client_for_buildkit_is_refused(machine: Path) -> None:
    with pytest.raises(UserFault, match="drives BuildKit"):
        clients.find({"PATH": str(machine / "neither")})
