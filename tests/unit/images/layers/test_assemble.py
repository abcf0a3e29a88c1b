"""Which layers an image has, in which order, and when one is taken from the store."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from images.host.store import Store, sha256
from images.layers import assemble
from images.layers.assemble import GROUPS, Extra, Ingredients
from images.model import BINDINGS, IPEX, Base, Layer, Wheel
from images.oci.layer import LayerWriter
from tests.support import locks
from tests.support.bases import base
from tests.support.stand_in import SITE, SYSTEM, Directory
from tests.support.wheels import pack

SBOM = '{"a": "bill"}'
BASE = base(SYSTEM, made=True)


def wheel(directory: Path, name: str) -> Wheel:
    path = pack(directory, {f"{name.replace('-', '_')}/__init__.py": name.encode()}, name.replace("-", "_"))
    return Wheel(name, "1.0", sha256(path), path)


def ingredients(directory: Path, *names: str, found: Base = BASE, **changes: Any) -> Ingredients:
    """Have a wheel of each name, and a lock of them and of transformers."""
    directory.mkdir(exist_ok=True)
    wheels = [wheel(directory, name) for name in names]
    artifacts = [locks.artifact(each.project, "1.0", each.path.name, each.sha256) for each in wheels]
    artifacts += [locks.artifact("transformers", "5.23.0")] if "transformers" not in names else []
    return Ingredients(locks.lock(artifacts, python="3.10", **changes), wheels, found, None, None)


def made(parts: Ingredients, store: Path, extras: Sequence[Extra] = (), sbom: str = SBOM) -> dict[str, Layer]:
    """Write the layers, by their names in the order of the image."""
    found = assemble.layers(parts, extras, lambda: sbom, locks.context(Store(store), None, {}))
    return {layer.name: layer for layer in found}


def files(layer: Layer, store: Path) -> dict[str, bytes]:
    """List the files of a layer."""
    data = zstandard.ZstdDecompressor().stream_reader(Store(store).place(layer.written.digest).read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {info.name: file.read() for info in tar if info.isreg() and (file := tar.extractfile(info))}


def fill(layer: LayerWriter) -> None:
    layer.file("etc/extra", b"1")


@pytest.mark.parametrize(
    ("project", "layer"),
    [
        ("torch", "torch"), ("transformers", "transformers"), ("tokenizers", "hugging face"),
        ("huggingface-hub", "hugging face"), ("accelerate", "hugging face"), ("numpy", "libraries"),
        ("impi-rt", "intel runtime"), ("umf", "intel runtime"), ("oneccl-bind-pt", "oneccl and ipex"),
        ("intel-extension-for-pytorch", "oneccl and ipex"),
    ],
)  # fmt: skip
def test_every_package_has_one_layer(project: str, layer: str) -> None:
    assert [name for name, belongs in GROUPS if belongs(project)] == [layer]


def test_what_changes_seldom_lies_low_and_empty_layers_are_not_written(tmp_path: Path) -> None:
    parts = ingredients(tmp_path / "wheels", "transformers", "numpy", "torch", "tokenizers", "impi-rt")
    layers = made(parts, tmp_path / "store", [Extra("links", [], fill)])

    assert [*layers] == [
        "links", "intel runtime", "torch", "libraries", "hugging face", "transformers", "multinode",
    ]  # fmt: skip
    assert files(layers["links"], tmp_path / "store") == {"etc/extra": b"1"}
    assert files(layers["torch"], tmp_path / "store")[f"{SITE}/torch/__init__.py"] == b"torch"
    assert [name for name in files(layers["torch"], tmp_path / "store") if "/numpy/" in name] == []


def test_the_examples_are_in_the_layer_of_their_release(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "examples.tar", "w") as tar:
        info = tarfile.TarInfo("transformers-5/examples/pytorch/x/run.py")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"pass"))
    archive = (sha256(tmp_path / "examples.tar"), tmp_path / "examples.tar")
    parts = replace(ingredients(tmp_path / "wheels", "torch"), examples=archive)

    layers = made(parts, tmp_path / "store")

    assert [*layers] == ["torch", "transformers", "multinode"]  # also where no wheel goes there


def test_the_highest_layer_says_what_the_image_is(tmp_path: Path) -> None:
    found = files(made(ingredients(tmp_path / "wheels", "torch"), tmp_path / "store")["multinode"], tmp_path / "store")
    texts = {Path(name).name: data for name, data in found.items() if name.startswith("opt/multinode/")}

    assert texts["components.json"].decode() == SBOM
    assert texts["constraints.txt"] == b"torch==1.0\ntransformers==5.23.0\n"
    assert b'lock-version = "1.0"' in texts["pylock.toml"] and b"file:///secret/place" not in texts["pylock.toml"]
    assert json.loads(texts["stack.json"])


def test_a_layer_that_is_there_is_taken(tmp_path: Path) -> None:
    first = made(ingredients(tmp_path / "wheels", "torch", "numpy"), tmp_path / "store")
    again = made(ingredients(tmp_path / "wheels", "torch", "numpy"), tmp_path / "store")

    assert {layer.reused for layer in first.values()} == {False}
    assert {layer.reused for layer in again.values()} == {True}
    assert [layer.written for layer in again.values()] == [layer.written for layer in first.values()]


LINKED = base(SYSTEM, {"opt/here": None, "opt/link": "here"}, made=True)
PEOPLED = replace(BASE, facts=replace(BASE.facts, passwd="root:x:0:0::/:/bin/sh\n"))
OWNED = base(SYSTEM, {"usr": Directory(0o700)}, made=True)
CHANGES: dict[str, tuple[Callable[[Ingredients], Ingredients], str, set[str]]] = {
    "another SBOM": (lambda parts: parts, "{}", {"multinode"}),
    "another trim": (lambda parts: replace(parts, lock=replace(parts.lock, trim=False)), SBOM, {"torch", "multinode"}),
    "a directory of another mode below": (lambda parts: replace(parts, base=OWNED), SBOM, {"torch", "multinode"}),
    "another place to import from": (
        lambda parts: replace(parts, base=replace(BASE, site=replace(BASE.site, directory="opt/site"))), SBOM,
        {"torch", "multinode"},
    ),
    "another link below": (lambda parts: replace(parts, base=LINKED), SBOM, {"torch", "multinode"}),
    "another user below": (lambda parts: replace(parts, base=PEOPLED), SBOM, {"multinode"}),
    "another suite": (
        lambda parts: replace(parts, lock=replace(parts.lock, debian=replace(parts.lock.debian, suite="trixie"))), SBOM,
        {"multinode"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "sbom", "written"), CHANGES.values(), ids=CHANGES)
def test_a_layer_is_written_again_when_what_decides_it_changes(
    tmp_path: Path, change: Callable[[Ingredients], Ingredients], sbom: str, written: set[str]
) -> None:
    parts = ingredients(tmp_path / "wheels", "torch")
    made(parts, tmp_path / "store")

    again = made(change(parts), tmp_path / "store", sbom=sbom)

    assert {layer.name for layer in again.values() if not layer.reused} == written


def test_the_bindings_are_written_again_when_the_name_of_their_module_is_corrected(tmp_path: Path) -> None:
    names = ("torch", BINDINGS, IPEX)
    wrong, right = (
        ingredients(tmp_path / "wheels", *names, backend="ccl", module=module) for module in ("torch_ccl", "oneccl")
    )
    made(wrong, tmp_path / "store")

    again = made(right, tmp_path / "store")

    assert {layer.name for layer in again.values() if not layer.reused} == {"oneccl and ipex", "multinode"}


def test_a_layer_that_was_removed_is_written_again(tmp_path: Path) -> None:
    parts = ingredients(tmp_path / "wheels", "torch")
    first = made(parts, tmp_path / "store")["torch"]
    Store(tmp_path / "store").place(first.written.digest).unlink()

    again = made(parts, tmp_path / "store")["torch"]

    assert (again.reused, again.written) == (False, first.written)


def test_an_extra_is_written_again_when_its_inputs_change(tmp_path: Path) -> None:
    parts = ingredients(tmp_path / "wheels", "torch")

    reused = [made(parts, tmp_path / "store", [Extra("x", inputs, fill)])["x"].reused for inputs in ([1], [1], [2])]

    assert reused == [False, True, False]
