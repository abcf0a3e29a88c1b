"""Lock and wheels -> layers: write each layer that is not in the store yet."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from pathlib import Path

from images.base.base import Base
from images.compiling import bytecode
from images.compiling.compiler import Compiler
from images.context import Context
from images.host.background import side_by_side
from images.layers import entrypoint_layer, examples, oneccl, trim
from images.layers import wheel as wheels
from images.layers.trim import Patterns
from images.layers.wheel import Parts
from images.lock import lockfile
from images.lock.lock import BINDINGS, Lock
from images.oci import compression
from images.oci.layer import Directories, Layer, Written
from images.oci.layer_writer import LayerWriter
from images.plan.planner import FAMILY
from images.store.store import Store, key_of
from images.wheels.archive import Wheel
from images.wheels.content import read_content

INTEL = ("impi-rt", "intel-openmp", "intel-cmplr-lib-ur", "umf", "tcmlib")
# Stable first: what changes seldom lies low and is shared by many images.
GROUPS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (compression.INTEL, lambda name: name in INTEL),
    ("torch", lambda name: name == "torch"),
    ("oneccl and ipex", lambda name: name in oneccl.STACK),
    ("libraries", lambda name: name not in (*INTEL, "torch", *oneccl.STACK, *FAMILY)),
    ("hugging face", lambda name: name in FAMILY and name != "transformers"),
    ("transformers", lambda name: name == "transformers"),
)
USERS = "your packages"  # the layer of what is there only for the user's own
BASE_BYTECODE = "debian bytecode"
WITH_EXAMPLES = "transformers"  # the layer that has them, for they are of the same release


@dataclass(frozen=True)
class Ingredients:
    """What the layers of an image are made of: its lock, the wheels of it in order, its base, and its examples.

    `left_out` is what the paths of the files of each wheel match that stay out. `examples` are the sha256 and the path
    of their archive. Without a `compiler` no module has bytecode.
    """

    lock: Lock
    wheels: Sequence[Wheel]
    left_out: Patterns
    base: Base
    examples: tuple[str, Path] | None
    compiler: Compiler | None


@dataclass(frozen=True)
class Draft:
    """A layer to be written: its name, what decides its bytes, how it is filled, and what else is below it."""

    name: str
    inputs: object
    fill: Callable[[LayerWriter], None]
    below: Directories | None = None


def write_layers(ingredients: Ingredients, extras: Sequence[Draft], sbom: Future[str], context: Context) -> list[Layer]:
    """Make every layer above the base, several at a time; the order of the image does not depend on it.

    `extras` are the layers directly above the base. `sbom` is the software bill of materials, which may still be
    written: that takes as long as a small layer.
    """
    below: list[Callable[[], Draft]] = [partial(replace, extra) for extra in extras]
    drafts = [*below, *_list_drafts(ingredients, sbom, context.store)]
    tasks = [partial(_write, draft, ingredients, context.store) for draft in drafts]
    return side_by_side(context.progress, "writing layers", tasks, context.settings.jobs)


def _list_drafts(ingredients: Ingredients, sbom: Future[str], store: Store) -> Iterator[Callable[[], Draft]]:
    """Yield what drafts each layer of the packages and above; it may compile first, which takes a while."""
    base, lock = ingredients.base, ingredients.lock
    if base.modules and lock.bytecode:
        yield partial(_base_bytecode, store, base, base.modules, ingredients.compiler)
    of_users = lock.user_packages.names if lock.user_packages else ()
    usual = [wheel for wheel in ingredients.wheels if wheel.project not in of_users]
    parts = [(name, [wheel for wheel in usual if belongs(wheel.project)]) for name, belongs in GROUPS]
    for name, members in (*parts, (USERS, [wheel for wheel in ingredients.wheels if wheel.project in of_users])):
        scripts = ingredients.examples if name == WITH_EXAMPLES else None
        if members or scripts:
            yield partial(_wheel_layer, name, replace(ingredients, wheels=members, examples=scripts), store)
    yield lambda: _draft_entrypoint(ingredients, sbom.result(), store)
    if files := lock.user_files:
        write = partial(entrypoint_layer.write_user_files, files=files, store=store)
        below = entrypoint_layer.directories_below(base.facts.directories)
        yield partial(Draft, entrypoint_layer.USER_FILES, [astuple(row) for row in files], write, below)


def compile_beside(
    making: Future[Base], compiler: Compiler, members: Sequence[Wheel], omitted: Patterns, context: Context
) -> None:
    """Compile wheels while the base of Debian is being made, which takes one processor.

    The largest is the first, so that none is long at the end. What is left when the base is there is compiled for its
    layer. `omitted` is what the modules of each project match that get no bytecode.
    """
    site = compiler.site.directory

    def compile_wheel(wheel: Wheel) -> None:
        if not making.done():
            bytecode.compile_jobs(context.store, [bytecode.wheel_job(wheel, site, omitted[wheel.project])], compiler)

    ordered = sorted(members, key=lambda wheel: -wheel.path.stat().st_size)
    tasks = [partial(compile_wheel, wheel) for wheel in ordered]
    side_by_side(context.progress, "compiling modules while the base is made", tasks, max(1, context.settings.jobs - 1))


def _base_bytecode(store: Store, base: Base, modules: str, compiler: Compiler | None) -> Draft:
    """Draft the bytecode of the base's own modules; without a compiler only the directories that it lies in."""
    compiled = bytecode.compile_jobs(store, [bytecode.base_job(store, modules)], compiler)[0] if compiler else ""

    def fill(layer: LayerWriter) -> None:
        pyc = bytecode.read_bytecode(store, compiled) if compiled else {}
        with zipfile.ZipFile(store.whole(modules)) as opened:
            for module in opened.namelist():
                layer.parents(module)
                if module in pyc:
                    layer.file(bytecode.bytecode_path(module, base.site.python), pyc[module])

    return Draft(BASE_BYTECODE, [modules, compiled, base.site.python], fill)


def _wheel_layer(name: str, part: Ingredients, store: Store) -> Draft:
    """Draft a layer of some of the wheels, or of the examples, or of both."""
    lock, base, archive, compiler = part.lock, part.base, part.examples, part.compiler
    digests = [wheel.sha256 for wheel in part.wheels]
    omitted = trim.uncompiled_patterns(part.left_out, lock)
    jobs = [bytecode.wheel_job(wheel, base.site.directory, omitted[wheel.project]) for wheel in part.wheels]
    compiled = dict(zip(digests, bytecode.compile_jobs(store, jobs, compiler), strict=True)) if compiler else {}
    paths = {wheel.project: wheel.path for wheel in part.wheels}
    module = lock.module if BINDINGS in paths else None
    left_out = part.left_out
    named = [(wheel.project, wheel.path.name, wheel.sha256, left_out[wheel.project].pattern) for wheel in part.wheels]
    inputs = [named, compiled, archive and archive[0], astuple(base.site), module]

    def fill(layer: LayerWriter) -> None:
        of_ipex = oneccl.shared_files(paths, module, left_out)
        for wheel in part.wheels:
            pyc = bytecode.read_bytecode(store, compiled[wheel.sha256]) if compiler else {}
            parts = Parts(pyc, of_ipex if wheel.project == BINDINGS else {}, left_out[wheel.project])
            wheels.write_wheel(layer, wheel.path, base.site, parts)
        if archive:
            examples.write_examples(layer, archive[1])

    return Draft(name, inputs, fill)


def _draft_entrypoint(ingredients: Ingredients, sbom: str, store: Store) -> Draft:
    """Draft the layer of multinode itself: the entrypoint, what it knows of the image, the lock and the SBOM."""
    lock, base, compiler = ingredients.lock, ingredients.base, ingredients.compiler
    files = entrypoint_layer.read_entrypoint(base.site)
    pyc: Mapping[str, bytes] = entrypoint_layer.compile_entrypoint(store, files, compiler) if compiler else {}
    said = {wheel.project: read_content(store, wheel.sha256, wheel.path).metadata for wheel in ingredients.wheels}
    requires = {project: metadata.get("requires_dist", []) for project, metadata in said.items()}
    texts = {
        "stack.json": json.dumps(entrypoint_layer.stack(lock, base), indent=1) + "\n",
        lockfile.NAME: lockfile.format_lock(lock),
        entrypoint_layer.SBOM: sbom,
        "constraints.txt": entrypoint_layer.format_constraints(lock, requires),
    }
    inputs = [
        {path: key_of(data.hex()) for path, data in {**files, **pyc}.items()},
        texts,
        base.facts.passwd,
        base.site.python,
        dict(base.links),
    ]
    write = partial(entrypoint_layer.write_entrypoint, sources=files, pyc=pyc, texts=texts, base=base)
    return Draft(entrypoint_layer.NAME, inputs, write)


def _write(draft: Callable[[], Draft], ingredients: Ingredients, store: Store) -> Layer:
    """Take a layer from the store by the hash of its inputs, or write it."""
    drafted = draft()
    below = drafted.below or ingredients.base.facts.directories
    settings = compression.choose_settings(drafted.name, ingredients.lock)

    def write() -> dict[str, object]:
        with store.temporary() as path:
            with LayerWriter(path, below, settings) as layer:
                drafted.fill(layer)
                written = layer.finish()
            store.keep(path, written.digest)
        return asdict(written)

    decisive = [drafted.name, drafted.inputs, settings, dict(below.links), _owners(below)]
    cached = store.cached("layers", decisive, write, lambda known: store.has(known["digest"], known["size"]))
    return Layer(drafted.name, Written(**cached.value), cached.reused)


def _owners(below: Directories) -> dict[str, object]:
    """Return the directories whose mode or owner in the base is another than usual: layers above have them so, too."""
    return {path: owner for path, owner in below.owners.items() if owner != (0o755, 0, 0)}
