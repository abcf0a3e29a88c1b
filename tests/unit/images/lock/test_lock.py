"""What is said of a lock: its files, what goes in, and whether its backend fits its packages."""

from __future__ import annotations

import dataclasses

import pytest
from pydantic import TypeAdapter

from images.model import BLOB, BaseImage, Descriptor, Examples, Lock, Manifest
from tests.support.locks import TINI, artifact, lock

PLAIN = [artifact("torch", "2.4.0+cpu"), artifact("transformers", "4.46.3")]
BOUND = [*PLAIN, artifact("oneccl-bind-pt", "2.4.0")]
BELOW = Manifest(
    f"sha256:{'a' * 64}",
    Descriptor("x", f"sha256:{'b' * 64}", 1),
    (Descriptor("x", f"sha256:{'c' * 64}", 1), Descriptor("x", f"sha256:{'d' * 64}", 1)),
)


@pytest.mark.parametrize(
    ("backend", "artifacts", "module", "odd"),
    [
        ("gloo", PLAIN, None, None),
        ("ccl", BOUND, "oneccl_bindings_for_pytorch", None),
        ("ccl", PLAIN, "oneccl_bindings_for_pytorch", "backend ccl without oneccl-bind-pt"),
        ("gloo", BOUND, None, "backend gloo with oneccl-bind-pt"),
        ("ccl", BOUND, None, "backend ccl without the module of oneccl-bind-pt"),
    ],
)
def test_a_backend_needs_its_packages(
    backend: str, artifacts: list[object], module: str | None, odd: str | None
) -> None:
    assert lock(artifacts, backend=backend, module=module).odd_backend == odd  # type: ignore[arg-type]


def test_what_a_base_has_does_not_go_in() -> None:
    made = lock(PLAIN, base_image=BaseImage(BELOW, ("torch",)))

    assert made.added == (PLAIN[1],)
    assert lock(PLAIN).added == tuple(PLAIN)


def test_every_file_has_its_sha256_and_its_name() -> None:
    made = lock(PLAIN, base_image=BaseImage(BELOW, ("torch",)), examples=Examples("examples.tar", "e" * 64))

    assert made.files() == [
        (PLAIN[1].sha256, PLAIN[1].filename), (TINI.sha256, TINI.filename), ("e" * 64, "examples.tar"),
        ("b" * 64, BLOB), ("c" * 64, BLOB), ("d" * 64, BLOB),
    ]  # fmt: skip


def test_a_version_has_its_local_part() -> None:
    assert lock(PLAIN).version("torch") == "2.4.0+cpu"


def test_an_image_is_called_by_its_versions() -> None:
    assert lock(torch="2.4.0", transformers="4.46.3").tag == "multinode:torch2.4.0-transformers4.46.3"


def test_plain_values_make_the_lock_again() -> None:
    made = lock(PLAIN, base_image=BaseImage(BELOW, ("torch",)))

    assert TypeAdapter(Lock).validate_python(dataclasses.asdict(made)) == made
