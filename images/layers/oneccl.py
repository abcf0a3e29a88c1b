"""The oneCCL stack: one copy of what its two wheels both bring, and the paths where people expect it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from installer.records import RecordEntry

from images.base.base import Base
from images.lock.lock import BINDINGS, IPEX, Lock
from images.wheels import archive
from images.wheels.archive import Wheel

STACK = (BINDINGS, IPEX)

IPEX_MODULE = "intel_extension_for_pytorch"
# Both wheels are made by the installation of one oneCCL, with Intel MPI below it. Not env/: setvars.sh takes its own
# directory for the root of everything (cmake/setvars.sh.in in oneCCL).
SHARED = re.compile(rf"{IPEX_MODULE}/((?:bin|etc|include|lib|opt)/.+)")

# Intel MPI, as wheels of the stack have it: from oneCCL 2021.12 on in opt/mpi, before in the package itself.
HYDRA = "bin/mpiexec.hydra"
PROGRAMS = ("hydra_bstrap_proxy", "hydra_nameserver", "hydra_pmi_proxy", "mpiexec", "mpiexec.hydra", "mpirun")
COMMANDS, MPI = "usr/local/bin", "usr/local/opt/mpi"
PLACES = (*(f"{COMMANDS}/{name}" for name in PROGRAMS), MPI)
# Where the Hugging Face guide sources setvars.sh from, whatever Python the image has.
GUIDE = "usr/local/lib/python3.10/dist-packages"


def module_of(lock: Lock) -> str | None:
    """Return the package of the bindings that an image uses; a lock names that of its torch also beside gloo."""
    return lock.module if lock.backend == "ccl" else None


def environment(lock: Lock, base: Base) -> dict[str, str]:
    """Return what lets ranks of oneCCL and mpirun start where nothing has sourced setvars.sh, as in a shell of a pod.

    Empty where the stack has no oneCCL. The transport is the entrypoint's choice: over MPI hydra kills ranks that end
    well. Releases before 2021.12 have libfabric's providers in Intel MPI's own lib.
    """
    mpi, module = f"/{MPI}", module_of(lock)
    if module is None:
        return {}
    return {
        "CCL_ATL_TRANSPORT": "ofi",
        "FI_PROVIDER_PATH": f"{mpi}/libfabric/lib/prov:{mpi}/lib/prov",
        "I_MPI_ROOT": mpi,
        "LD_LIBRARY_PATH": f"{mpi}/lib:{mpi}/libfabric/lib:/{base.site.directory}/{module}/lib",
    }


def shared_files(
    wheels: Mapping[str, Path], module: str | None, left_out: Mapping[str, re.Pattern[str]]
) -> dict[str, RecordEntry]:
    """Return what IPEX has at the same path as the bindings, as path of the bindings -> row of IPEX's RECORD.

    IPEX's copy is the one that is used: accelerate imports IPEX first, and its libraries find their neighbours by
    DT_RPATH, so a process has IPEX's libccl and libmpi, whichever release the bindings have. Empty without both wheels.
    `left_out` is what the paths of each project match that are not in the image.
    """
    if module is None or not wheels.keys() >= {*STACK}:
        return {}
    with archive.open_wheel(wheels[IPEX]) as ipex, archive.open_wheel(wheels[BINDINGS]) as bindings:
        kept = (name for name in ipex.members if not left_out[IPEX].match(name))
        places = {f"{module}/{match[1]}": match[0] for name in kept if (match := SHARED.fullmatch(name))}
        return {path: ipex.rows[name] for path, name in places.items() if path in bindings.members}


def link_bindings(names: Iterable[str], module: str, site: str) -> dict[str, str]:
    """Return the links that lead to the bindings, as path -> target: Intel MPI's programs and directory, the guide's.

    `names` are the files of the bindings relative to `site`.
    """
    programs = {name for name in names if posixpath.basename(name) in PROGRAMS}
    targets = {}
    for hydra in (name for name in sorted(programs) if name.endswith(HYDRA)):
        directory = posixpath.dirname(hydra)
        present = [name for name in PROGRAMS if f"{directory}/{name}" in programs]
        targets = {f"{COMMANDS}/{name}": f"{site}/{directory}/{name}" for name in present}
        targets[MPI] = f"{site}/{posixpath.dirname(directory)}"
    if site != GUIDE:
        targets[f"{GUIDE}/{module}"] = f"{site}/{module}"
    return {place: posixpath.relpath(target, posixpath.dirname(place)) for place, target in targets.items()}


def add_links(base: Base, lock: Lock, wheels: Sequence[Wheel]) -> Base:
    """Return the base with links to the bindings, whether a wheel or the base brings them."""
    module = module_of(lock)
    if module is None:
        return base
    listing = base.facts.listing
    taken = {place for place in PLACES if posixpath.basename(place) in listing.get(posixpath.dirname(place), ())}
    if any(artifact.name == "impi-rt" for artifact in lock.artifacts):
        taken |= {*PLACES}
    links = link_bindings(_list_files(base, wheels), module, base.site.directory)
    kept = {place: target for place, target in links.items() if place not in taken}
    return replace(base, links={**base.links, **kept})


def _list_files(base: Base, wheels: Sequence[Wheel]) -> list[str]:
    """List the files of the bindings, as their wheel has them."""
    for wheel in wheels:
        if wheel.project == BINDINGS:
            with archive.open_wheel(wheel.path) as opened:
                return [*opened.members]
    site, installed = base.site.directory, base.facts.distributions
    files = next((d.files for d in installed if (d.name, d.directory) == (BINDINGS, site)), None)
    return [path.removeprefix(f"{site}/") for path in files or () if path.startswith(f"{site}/")]
