"""The oneCCL stack: one copy of what its two wheels both bring, and the paths where people look for it."""

from __future__ import annotations

import hashlib
import posixpath
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from images.layers import trim

BINDINGS, IPEX = "oneccl-bind-pt", "intel-extension-for-pytorch"
STACK = (BINDINGS, IPEX)

IPEX_MODULE = "intel_extension_for_pytorch"
# Both wheels are made by the installation of one oneCCL, with Intel MPI below it. Not env/: setvars.sh takes its own
# folder for the root of everything (cmake/setvars.sh.in in oneCCL).
SHARED = re.compile(rf"{IPEX_MODULE}/((?:bin|etc|include|lib|opt)/.+)")

# Intel MPI, as wheels of the stack have it: from oneCCL 2021.12 on in opt/mpi, before in the package itself.
HYDRA = "bin/mpiexec.hydra"
PROGRAMS = ("hydra_bstrap_proxy", "hydra_nameserver", "hydra_pmi_proxy", "mpiexec", "mpiexec.hydra", "mpirun")
COMMANDS, MPI = "usr/local/bin", "usr/local/opt/mpi"
PLACES = (*(f"{COMMANDS}/{name}" for name in PROGRAMS), MPI)
# Where the Hugging Face guide sources setvars.sh from, whatever Python the image has.
GUIDE = "usr/local/lib/python3.10/dist-packages"


@dataclass(frozen=True)
class Twin:
    """A file of another package that stands at the same path in it: where it is, its sha256, its size in bytes."""

    path: str
    sha256: str
    size: int


def twins(wheels: Mapping[str, Path], module: str | None, *, trimmed: bool) -> dict[str, Twin]:
    """Find what IPEX has at the same path as the bindings, as path of the bindings -> file of IPEX.

    IPEX's copy is the one that counts: accelerate imports IPEX first, and its libraries find their neighbours by
    DT_RPATH, so a process has IPEX's libccl and libmpi, whichever release the bindings have. Empty without both wheels.
    """
    if module is None or not wheels.keys() >= {*STACK}:
        return {}
    left_out = trim.pattern(IPEX) if trimmed else None
    with zipfile.ZipFile(wheels[IPEX]) as ipex, zipfile.ZipFile(wheels[BINDINGS]) as bindings:
        mine = set(bindings.namelist())
        found = {}
        for name in ipex.namelist():
            shared = SHARED.fullmatch(name)
            path = f"{module}/{shared[1]}" if shared else ""
            if path in mine and not name.endswith("/") and not (left_out and left_out.match(name)):
                data = ipex.read(name)
                found[path] = Twin(name, hashlib.sha256(data).hexdigest(), len(data))
        return found


def links(names: Iterable[str], module: str, site: str) -> dict[str, str]:
    """Say which paths lead to the bindings: the programs of Intel MPI, its folder, and the guide's folder.

    `names` are the files of the bindings relative to `site`. The answer is path -> target, as a link has it.
    """
    programs = {name for name in names if posixpath.basename(name) in PROGRAMS}
    wanted = {}
    for hydra in (name for name in sorted(programs) if name.endswith(HYDRA)):
        folder = posixpath.dirname(hydra)
        found = [name for name in PROGRAMS if f"{folder}/{name}" in programs]
        wanted = {f"{COMMANDS}/{name}": f"{site}/{folder}/{name}" for name in found}
        wanted[MPI] = f"{site}/{posixpath.dirname(folder)}"
    if site != GUIDE:
        wanted[f"{GUIDE}/{module}"] = f"{site}/{module}"
    return {place: posixpath.relpath(target, posixpath.dirname(place)) for place, target in wanted.items()}
