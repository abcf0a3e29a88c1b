"""An engine that cannot start an image: a program in its place fails as podman does (podman-run(1), Exit Status)."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.deliver.podman import Podman
from images.host.errors import WorldFault
from images.model import Image

IMAGE = Image(("multinode:test",), b"{}", b"{}", ())
LIMITS = "Error: OCI runtime error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted"


def podman(place: Path, code: int, text: str) -> Podman:
    """Put a podman that says `text` and ends with `code` into PATH."""
    program = place / "podman"
    program.write_text(f"#!/bin/sh\ncat >&2 << 'END'\n{text}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return Podman({"PATH": f"{place}:/usr/bin:/bin"})


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_container_that_does_not_start_is_no_failure_of_the_command(tmp_path: Path, code: int) -> None:
    with pytest.raises(WorldFault, match="podman could not start the image") as caught:
        podman(tmp_path, code, LIMITS).run(IMAGE, ["true"])

    assert caught.value.value == LIMITS
    assert "podman run --rm multinode:test true" in caught.value.remedy


def test_what_the_command_says_last_is_returned(tmp_path: Path) -> None:
    assert podman(tmp_path, 1, "first\nlast").run(IMAGE, ["true"]) == "last"
    assert podman(tmp_path, 0, "a warning").run(IMAGE, ["true"]) is None
