"""Which layers an image has, in which order, and when one is taken from the store."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from images.base.base import Base
from images.compiling import bytecode, compile_modules
from images.compiling.compiler import Compiler
from images.content import Content
from images.layers import assemble, trim
from images.layers.assemble import Draft, Ingredients
from images.layers.entrypoint_layer import GID, UID
from images.lock.lock import BINDINGS, IPEX, UserPackages
from images.oci import compression
from images.oci.layer import Layer
from images.oci.layer_writer import EPOCH, LayerWriter
from images.plan.user_files import USER_FILE, UserFile
from images.store.blobs import sha256
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.golden import entries
from tests.support import locks, stores
from tests.support.bases import base
from tests.support.stand_in import SYSTEM, Directory
from tests.support.wheels import pack

SBOM = '{"a": "bill"}'
BASE = base(SYSTEM, is_debian=True)


def wheel(directory: Path, name: str) -> Wheel:
    path = pack(directory, {f"{name.replace('-', '_')}/__init__.py": name.encode()}, name.replace("-", "_"))
    return Wheel(name, "1.0", sha256(path), path)


def ingredients(directory: Path, *names: str, below: Base = BASE, **changes: Any) -> Ingredients:
    """Have a wheel of each name, and a lock of them and of transformers."""
    directory.mkdir(exist_ok=True)
    wheels = [wheel(directory, name) for name in names]
    artifacts = [locks.artifact(file.project, "1.0", file.path.name, file.sha256) for file in wheels]
    artifacts += [locks.artifact("transformers", "5.23.0")] if "transformers" not in names else []
    left_out = {name: trim.trimmed_pattern(name, Content()) for name in names}
    return Ingredients(locks.lock(artifacts, python="3.10", **changes), wheels, left_out, below, None, None)


def write(parts: Ingredients, store: Path, extras: Sequence[Draft] = (), sbom: str = SBOM) -> dict[str, Layer]:
    """Write the layers, by their names in the order of the image."""
    written = Future[str]()
    written.set_result(sbom)
    layers = assemble.write_layers(parts, extras, written, locks.context(Store(store), None, {}))
    return {layer.name: layer for layer in layers}


def fill(layer: LayerWriter) -> None:
    layer.file("etc/extra", b"1")


LINKED = base(SYSTEM, {"opt/here": None, "opt/link": "here"}, is_debian=True)
PEOPLED = replace(BASE, facts=replace(BASE.facts, passwd="root:x:0:0::/:/bin/sh\n"))
OWNED = base(SYSTEM, {"usr": Directory(0o700)}, is_debian=True)


def renamed(parts: Ingredients) -> Ingredients:
    """Have the same wheel under the name of another build: names decide what is left out, and where headers go."""
    [old] = parts.wheels
    other = old.path.with_name("torch-1.0-1-py3-none-any.whl")
    other.write_bytes(old.path.read_bytes())
    return replace(parts, wheels=[replace(old, path=other)])


CHANGES: dict[str, tuple[Callable[[Ingredients], Ingredients], str, set[str]]] = {
    "another SBOM": (lambda parts: parts, "{}", {"multinode"}),
    "another trim": (lambda parts: replace(parts, lock=replace(parts.lock, trim=False)), SBOM, {"multinode"}),
    "other files of a wheel": (
        lambda parts: replace(parts, left_out={"torch": trim.trimmed_pattern("torch", Content(trim=False))}), SBOM,
        {"torch"},
    ),
    "a directory of another mode below": (lambda parts: replace(parts, base=OWNED), SBOM, {"torch", "multinode"}),
    "another place to import from": (
        lambda parts: replace(parts, base=replace(BASE, site=replace(BASE.site, directory="opt/site"))), SBOM,
        {"torch", "multinode"},
    ),
    "another link below": (lambda parts: replace(parts, base=LINKED), SBOM, {"torch", "multinode"}),
    "another name of a wheel": (renamed, SBOM, {"torch"}),
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
    write(parts, tmp_path / "store")

    again = write(change(parts), tmp_path / "store", sbom=sbom)

    assert {layer.name for layer in again.values() if not layer.reused} == written


def test_the_bindings_are_written_again_when_the_name_of_their_module_is_corrected(tmp_path: Path) -> None:
    names = ("torch", BINDINGS, IPEX)
    wrong, right = (
        ingredients(tmp_path / "wheels", *names, backend="ccl", module=module) for module in ("torch_ccl", "oneccl")
    )
    write(wrong, tmp_path / "store")

    again = write(right, tmp_path / "store")

    assert {layer.name for layer in again.values() if not layer.reused} == {"oneccl and ipex", "multinode"}


def test_what_is_there_only_for_the_users_own_packages_is_a_layer_above_the_others(tmp_path: Path) -> None:
    names = ("torch", "six", "transformers", "grpcio", "peft")
    usual = write(ingredients(tmp_path / "wheels", *names[:3]), tmp_path / "store")
    mine = UserPackages(("peft",), ("grpcio", "peft"))

    layers = write(ingredients(tmp_path / "wheels", *names, user_packages=mine), tmp_path / "store")

    assert [*layers] == ["torch", "libraries", "transformers", "your packages", "multinode"]
    assert {layer.name for layer in layers.values() if not layer.reused} == {"your packages", "multinode"}
    assert layers["libraries"] == replace(usual["libraries"], reused=True)


def test_the_users_own_files_are_the_last_layer_whose_directories_stay_as_they_are(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    digest = stores.keep(store, b"1", USER_FILE)
    files = (UserFile("run", digest, executable=True), UserFile("src/a.py", digest), UserFile("src/b", target="a.py"))
    parts = ingredients(tmp_path / "wheels", "torch", user_files=files)

    first, again = write(parts, store.root), write(parts, store.root)
    other = replace(parts, lock=replace(parts.lock, user_files=files[1:]))

    assert [*first][-2:] == ["multinode", "your files"] and again["your files"].reused
    assert not write(other, store.root)["your files"].reused
    with compression.open_layer_tar(store.place(first["your files"].written.digest)) as (tar, _):
        entries = {info.name: (info.mode, info.uid, info.gid, int(info.mtime), info.linkname) for info in tar}
    assert entries == {
        "workspace": (0o775, UID, GID, EPOCH, ""),
        "workspace/run": (0o755, 0, 0, EPOCH, ""),
        "workspace/src": (0o755, 0, 0, EPOCH, ""),
        "workspace/src/a.py": (0o644, 0, 0, EPOCH, ""),
        "workspace/src/b": (0o777, 0, 0, EPOCH, "a.py"),
    }


def compile_as_text(_: object, given: Path, out: Path) -> None:
    """Write what stands for bytecode; of a module that is none nothing."""
    with given.open("rb") as feed, out.open("wb") as file:
        while (modules := compile_modules.read(feed)) is not None:
            for path, text in modules:
                if text != b"no module":
                    file.write(b"%d %d\n%s%s" % (len(path), len(text) + 4, path.encode(), b"pyc " + text))
            file.write(compile_modules.END)


@pytest.mark.parametrize("compiles", [True, False])
def test_the_bases_own_modules_have_bytecode_in_a_layer_directly_above_it(tmp_path: Path, compiles: bool) -> None:
    """Without a compiler it has their directories alone."""
    store, library = Store(tmp_path / "store"), "usr/lib/python3.10"
    with zipfile.ZipFile(tmp_path / "modules", "w") as archive:
        for name, text in (("a.py", b"a"), ("b/c.py", b"no module")):
            archive.writestr(f"{library}/{name}", text)
    below = replace(BASE, modules=stores.keep(store, (tmp_path / "modules").read_bytes()))
    python = Compiler(BASE.site, "", compile_as_text) if compiles else None
    parts = replace(ingredients(tmp_path / "wheels", "torch", below=below, bytecode=True), compiler=python)

    layers = write(parts, store.root)

    assert [*layers] == ["debian bytecode", "torch", "multinode"]
    written = entries.read(store.place(layers["debian bytecode"].written.digest))
    cached = {f"{library}/__pycache__": None, f"{library}/__pycache__/a.cpython-310.pyc": b"pyc a"}
    directories = dict.fromkeys(("usr", "usr/lib", library, f"{library}/b"))
    assert {one.path: one.content for one in written} == {**directories, **(cached if compiles else {})}


def test_a_layer_that_was_removed_is_written_again(tmp_path: Path) -> None:
    parts = ingredients(tmp_path / "wheels", "torch")
    first = write(parts, tmp_path / "store")["torch"]
    Store(tmp_path / "store").place(first.written.digest).unlink()

    again = write(parts, tmp_path / "store")["torch"]

    assert (again.reused, again.written) == (False, first.written)


def test_an_extra_is_written_again_when_its_inputs_change(tmp_path: Path) -> None:
    parts = ingredients(tmp_path / "wheels", "torch")

    reused = [write(parts, tmp_path / "store", [Draft("x", inputs, fill)])["x"].reused for inputs in ([1], [1], [2])]

    assert reused == [False, True, False]


@pytest.mark.parametrize(("jobs", "at_once"), [(1, 1), (2, 1), (4, 3)])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_the_largest_wheel_is_compiled_first_until_the_base_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, at_once: int, left: int
) -> None:
    """One processor makes the base; with `left` wheels compiled it is there."""
    making, compiled, asked = Future[Base](), list[str](), list[int]()
    if not left:
        making.set_result(base(SYSTEM, is_debian=True))

    def compile_jobs(_: object, wanted: list[object], compiler: object) -> None:
        compiled.append(str(wanted[0]))
        if len(compiled) == left:
            making.set_result(base(SYSTEM, is_debian=True))

    def run(_: object, __: str, tasks: list[Callable[[], None]], count: int) -> None:
        asked.append(count)
        for task in tasks:
            task()

    monkeypatch.setattr(bytecode, "wheel_job", lambda wheel, site, omitted: f"{wheel.project} {site} {omitted}")
    monkeypatch.setattr(bytecode, "compile_jobs", compile_jobs)
    monkeypatch.setattr(assemble, "side_by_side", run)
    wheels = list[Wheel]()
    for project, size in (("small", 1), ("large", 9), ("middle", 5)):
        (tmp_path / project).write_bytes(b"x" * size)
        wheels.append(Wheel(project, "1", "0" * 64, tmp_path / project))
    python: Any = SimpleNamespace(site=SimpleNamespace(directory="site"))
    context = locks.context(Store(tmp_path / "store"), None, {})
    context = replace(context, settings=replace(context.settings, jobs=jobs))
    omitted: Any = {wheel.project: f"not {wheel.project}" for wheel in wheels}

    assemble.compile_beside(making, python, wheels, omitted, context)

    assert asked == [at_once]
    assert compiled == [f"{project} site not {project}" for project in ("large", "middle", "small")][:left]
