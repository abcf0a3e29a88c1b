"""Bytecode of a wheel's modules, made by the base's own interpreter, once per wheel and interpreter."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from images import process, trim
from images.errors import WorldFault
from images.layer import EPOCH
from images.store import Store, key_of
from images.wheels import schemes

WORKER = Path(__file__).with_name("compile_wheel.py")


def interpreter(root: Path, python: str) -> tuple[list[str], dict[str, str]]:
    """Say how to start the Python of an unpacked root file system, without root and without entering it."""
    library = root / "usr/lib/x86_64-linux-gnu"
    loader = [str(library / "ld-linux-x86-64.so.2"), "--library-path", str(library)]
    return [*loader, str(root / f"usr/bin/python{python}"), "-I", "-S", "-B"], {"PYTHONHOME": str(root / "usr")}


def make(store: Store, wheels: Sequence[tuple[str, str, Path]], root: Path, python: str, base: str) -> dict[str, str]:
    """Compile wheels given as (project, sha256, path); answer sha256 of the wheel -> sha256 of its bytecode.

    Modules that this Python cannot compile (templates, other languages' dialects) are left out, as pip does.
    Raises WorldFault when the interpreter itself fails.
    """
    worker = WORKER.read_text()
    made = {}
    for project, digest, path in wheels:
        left_out = trim.pattern(project)
        key = key_of(["bytecode", digest, base, worker, EPOCH, left_out.pattern if left_out else ""])
        known = store.record("bytecode", key)
        if known is None or store.blob(known) is None:
            known = _compile(store, path, root, python, left_out.pattern if left_out else "(?!)")
            store.write_record("bytecode", key, known)
        made[digest] = str(known)
    return made


def _compile(store: Store, wheel: Path, root: Path, python: str, left_out: str) -> str:
    from images.store import sha256

    start, env = interpreter(root, python)
    site = "/" + schemes(python, "")["purelib"]
    with store.aside() as out:
        command = [*start, str(WORKER), str(wheel), str(out), site, str(EPOCH), left_out]
        done = process.run(command, env, "remove the store's folder `trees` and build again")
        if done.code:
            said = (done.err.strip().splitlines() or [f"exit code {done.code}"])[-1]
            remedy = "remove the store's folder `trees` and build again, or build with --no-bytecode"
            raise WorldFault("cannot compile the modules of a wheel", f"{wheel.name}: {said}", remedy)
        digest = sha256(out)
        store.keep(out, digest)
    return digest


def read(store: Store, digest: str) -> Mapping[str, bytes]:
    """Read what was compiled: path of the module in site -> bytecode."""
    path = store.blob(digest)
    if path is None:
        raise WorldFault("the store lost a file while it was in use", digest, "build again")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
