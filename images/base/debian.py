"""The lowest layer: a root file system from exact .debs by mmdebstrap, cleaned of all that differs between two runs."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, cast

from images.base import additions, inspect
from images.base.base import Base, Facts, Recipe, of_debian
from images.debs import bootstrap, unshared
from images.debs.apt import Deb
from images.debs.mirrors import REMEDY, search_path
from images.host import process
from images.host.context import temporary
from images.host.disk.faults import require_programs
from images.host.errors import WorldFault
from images.host.store import Store
from images.oci import packing
from images.oci.layer import EPOCH, Directories, Layer, LayerWriter, Written

# What mmdebstrap leaves and an image must not have: pattern over paths, reason.
CLEANED = (
    (r"dev/.", "devices are the engine's"),
    (r"etc/ssh/ssh_host_", "a host key in an image is everybody's key"),
    (r"etc/(hostname|resolv\.conf)$", "of the machine that built it"),
    (r"etc/machine-id$|var/lib/dbus/machine-id$", "one for each machine"),
    (r"var/log/.+", "logs of the installation"),
    (r"var/cache/(apt|ldconfig|debconf/.*-old)", "caches, with times inside"),
    (r"var/lib/apt/lists/.", "lists of a day"),
    (r"var/lib/dpkg/.*-old$|etc/.*-$", "copies from before the last change"),
    (r"etc/\.pwd\.lock$|var/lib/dpkg/(lock|triggers/Lock)", "locks"),
    (r"(tmp|run)/.", "of the moment"),
)
DIRTY = re.compile("|".join(f"(?:{pattern})" for pattern, _ in CLEANED))

# For the scripts of packages, whatever the user has set.
SCRIPTS = {"SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}

REMAKE = "build.py lock makes a new lock"


class Unmade(WorldFault):
    """A base is not in the store, and its packages must not be installed here."""


def make(store: Store, recipe: Recipe, python: str, environ: Mapping[str, str], *, install: bool = True) -> Base:
    """Make the base from exactly these packages, without network, for Python `python` (3.X).

    The same packages give the same bytes. Raises Damaged when one is not in the store, and Unmade where the scripts of
    packages would have to run, but not `install`.
    """

    def build() -> dict[str, object]:
        if not install:
            raise Unmade("the base is not made here", f"debian:{recipe.suite}", "build.py build makes it")
        return _build(store, recipe, environ)

    inputs = [recipe.suite, recipe.packages, sorted(deb.sha256 for deb in recipe.debs), recipe.sources]
    made = store.cached(
        "bases", inputs, build, lambda known: store.has(known["written"]["digest"], known["written"]["size"])
    )
    layer = Layer(packing.BASE, Written(**made.value["written"]), made.reused)
    return base_of(recipe, layer, inspect.from_plain(made.value["facts"]), python)


def require_makeable(store: Store, recipe: Recipe, python: str, environ: Mapping[str, str]) -> None:
    """Raise WorldFault where a base is not in the store, and this user cannot make it."""
    if fault := unshared.fault(environ, os.geteuid()):
        try:
            make(store, recipe, python, environ, install=False)
        except Unmade:
            raise fault from None


def base_of(recipe: Recipe, layer: Layer, facts: Facts, python: str) -> Base:
    """Return a layer as a base, with the facts that were read from it.

    Raises WorldFault when it has another Python, or other packages than the recipe.
    """
    if python not in facts.pythons:
        raise WorldFault("the Debian base has another Python", f"{python} (it has {', '.join(facts.pythons)})", REMAKE)
    _check(recipe.debs, facts.packages)
    return Base(
        name=f"debian:{recipe.suite}",
        layers=(layer,),
        facts=facts,
        site=of_debian(python),
        links=additions.links(facts, facts.starts[python]),
    )


def mmdebstrap(store: Store, environ: Mapping[str, str]) -> str | None:
    """Return the release of mmdebstrap on this machine, such as 1.3.5; None where there is none that says it."""
    path = shutil.which("mmdebstrap", path=search_path(environ))
    if path is None:
        return None

    def ask() -> str | None:
        done = process.run([path, "--version"], {**environ, "PATH": search_path(environ)}, REMEDY)
        found = re.fullmatch(r"mmdebstrap ([0-9][0-9A-Za-z.+-]*)\s*", done.out)
        return found[1] if found else None

    program = Path(path).stat()
    return cast("str | None", store.cached("mmdebstrap", [path, program.st_mtime_ns, program.st_size], ask).value)


def scripts_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the scripts of packages see: of the user's variables only where programs and temporary files are.

    Others may change what they write: py3compile compiles its own modules by source hash (PEP 552) where a container
    or a shell sets PYTHONDONTWRITEBYTECODE, and lets Python compile them by source time elsewhere.
    """
    kept = {name: environ[name] for name in ("TMPDIR",) if name in environ}
    return {**kept, "PATH": search_path(environ), **SCRIPTS}


def _build(store: Store, recipe: Recipe, environ: Mapping[str, str]) -> dict[str, object]:
    env = scripts_environment(environ)
    require_programs(Path(temporary(env)), "the directory of temporary files", "set TMPDIR to one where they can")
    unshared.require(env, os.geteuid())
    with store.aside() as parts, store.aside() as raw, store.aside() as out:
        bootstrap.pack(store, sorted(recipe.debs), recipe.sources, parts, env)
        bootstrap.run(recipe.packages, parts, raw, env)
        with tarfile.open(raw) as source, LayerWriter(out, Directories(), packing.BASE) as layer:
            for info, data in cleaned(source):
                layer.copy(info, data)
            written = layer.finish()
        facts, _ = inspect.read_facts([(out, f"sha256:{written.diff_id}")], {})
        _check(recipe.debs, facts.packages)
        store.keep(out, written.digest)
    return {"written": asdict(written), "facts": inspect.plain(facts)}


def _check(debs: tuple[Deb, ...], installed: Mapping[str, str]) -> None:
    """Refuse a base with other packages than the lock.

    An index may call a package required whose own control file does not.
    """
    left = {(deb.package, deb.version) for deb in debs} ^ set(installed.items())
    if left:
        names = ", ".join(sorted(f"{name} {version}" for name, version in left))
        remedy = "name them under packages in images/versions.toml, in the row of this base"
        raise WorldFault("packages of the base that nothing in it asks for", names, remedy)


def cleaned(source: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield the entries that belong into an image, with times no later than EPOCH, paths without `./`.

    None of them is run as its owner or group (setuid, setgid), as `su` and `mount` are: no program of an image needs
    that, and what is started as root has it anyway.
    """
    for info in source:
        info.name = info.name.removeprefix("./").rstrip("/")
        if info.name in ("", ".") or DIRTY.match(info.name):
            continue
        if info.islnk():
            info.linkname = info.linkname.removeprefix("./")
        data = source.extractfile(info) if info.isreg() else None
        if data and info.name.endswith(".pyc"):
            data = io.BytesIO(_with_time_of_source(data.read()))
        info.mode &= ~(stat.S_ISUID | stat.S_ISGID)
        info.mtime = min(int(info.mtime), EPOCH)
        info.uname = info.gname = ""
        info.pax_headers = {}
        yield info, data


def _with_time_of_source(pyc: bytes) -> bytes:
    """Clamp the source's time in a .pyc (bytes 8 to 12, PEP 552) as the tar clamps the source's own."""
    flags, mtime = int.from_bytes(pyc[4:8], "little"), int.from_bytes(pyc[8:12], "little")
    return pyc if flags else pyc[:8] + min(mtime, EPOCH).to_bytes(4, "little") + pyc[12:]
