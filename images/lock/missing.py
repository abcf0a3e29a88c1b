"""What is missing, in the user's words: why uv found no packages, and where a file of a lock normally comes from."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from images.host.certificates import TRUST
from images.host.disk.faults import MAKE_USABLE, REMEDIES, disk_fault, number_in
from images.host.download import refused
from images.host.errors import Fault, UserFault, WorldFault
from images.host.pip_config import Sources, without_login
from images.host.store import UV
from images.host.text import shortened
from images.lock import uv
from images.lock.uv import Pinned
from images.model import BINDINGS, EXAMPLES, Plan
from images.wheels import wheelhouse

# uv's own index, where none is configured: uv documentation, "Package indexes".
USUAL = "PyPI"
DIGEST = re.compile("(sha256:)?[0-9a-f]{64}")  # of a part of a base, which has no other name
# What uv says: of a file, and where nothing meets all requirements; other failures are its own or the machine's.
NO_DAY, NO_SOLUTION = "is missing an upload date", "No solution found"
NOT_PERMITTED = (errno.EACCES, errno.EPERM)


class Unreachable(WorldFault):
    """The last place to ask for a `project` cannot be reached; its name is as in files: oneccl_bind_pt."""

    def __init__(self, fact: str, value: str, remedy: str, project: str) -> None:
        super().__init__(fact, value, remedy)
        self.project = project


def files_missing(names: Sequence[str]) -> WorldFault:
    """Return the fault that names the files of a lock that cannot be had here, and where they normally come from."""
    kinds = [_kind(name) for name in names]
    value = ", ".join(f"{name} ({origin})" for name, (origin, _) in zip(names, kinds, strict=True))
    options = " and ".join(dict.fromkeys(option for _, option in kinds))
    remedy = f"{options}; or --offline BUNDLE with the bundle made from the lock"
    return WorldFault("files of the lock are missing", value, remedy)


def _kind(filename: str) -> tuple[str, str]:
    """Return where a file of a lock normally comes from, and the option by which the user gives it."""
    if DIGEST.fullmatch(filename):
        return "the registry of the base", "--base oci:DIRECTORY or archive:FILE with that base"
    if filename == EXAMPLES:
        return "the archive of the transformers release on GitHub", "--examples PATH with a copy of that archive"
    indexes = {"torch": uv.TORCH_INDEX, BINDINGS: "Intel's wheel index"}
    index = indexes.get(canonicalize_name(filename.partition("-")[0]), "PyPI")
    origin = "Debian's mirror, or its snapshots" if filename.endswith(".deb") else index
    return origin, "--wheelhouse DIR with those very files in it"


def explain(said: str, pins: Pinned, sources: Sources, root: Path, directory: str | None = None) -> Fault:
    """Return what failed: the disk, an address, a file, a place without days, a requirement that nothing meets, or uv.

    `directory` is the wheelhouse. Raises UserFault when it has what was looked for, and it cannot be used.
    """
    if refusal := _refused(said, root):
        return refusal
    if directory:
        requirements = pins.requirements if isinstance(pins, Plan) else ()
        wanted = [*_pins("\n".join(requirements)), *_pins(said)]
        wheelhouse.refuse(Path(directory), wanted, pins.python, pins.glibc, pins.platform)
    if failed := re.search(r"Failed to fetch: `?(\S+?)`?$(.*)", said, re.MULTILINE | re.DOTALL):
        return _unreachable(failed[1], failed[2], pins)
    if undated := _undated(said):
        fact = "nothing can be resolved as of a day from an index that does not say when its files were uploaded"
        places = ", ".join((sources.index or USUAL, *sources.extra))
        remedy = "--lock FILE, made where an index says it (PyPI does); or --wheelhouse DIR with all wheels"
        return UserFault(fact, f"{', '.join(undated)} (asked: {places})", remedy)
    return _failed(said, pins, root)


def _failed(said: str, pins: Pinned, root: Path) -> Fault:
    """Return the fault of what uv says of no address, file or day."""
    said = " ".join(line.strip() for line in said.splitlines() if NO_DAY not in line)
    if setting := re.search("Failed to parse: /dev/stdin.*error at.*[|^] +(.*)", said):
        fact = "uv cannot use a setting of pip's configuration"
        return UserFault(fact, setting[1].strip(), "correct it in pip.conf, or in the variable PIP_... that sets it")
    if NO_SOLUTION in said:
        remedy = f"another release than --transformers {pins.transformers}, or --wheelhouse with what is missing"
        return UserFault("no set of packages fits", said[:800], remedy)
    remedy = f"correct what it names; more memory, if a signal ended it; or without its cache (rm -rf {root / UV})"
    return WorldFault("uv failed", shortened(said, 800), remedy)


def _refused(said: str, root: Path) -> WorldFault | None:
    """Return the fault of a disk that refuses: the store's, unless uv names a path elsewhere.

    What is not permitted and has no path is no disk's: a firewall refuses with the same numbers.
    """
    number, named = number_in(said), re.search("(?:`|: )(/[^`\n]+)", said)
    if number not in REMEDIES or (number in NOT_PERMITTED and not named):
        return None
    if named is None or Path(named[1]).is_relative_to(root):
        return disk_fault(root, OSError(number, said, *([named[1]] if named else [])))
    return WorldFault("the system refuses", f"{named[1]} ({os.strerror(number)})", MAKE_USABLE)


def require_indexes(name: str, indexes: Iterable[str]) -> None:
    """Raise UserFault for an index that is neither an address nor a directory here; `name` is what the user calls it.

    uv would go on without it, and take its packages from another index, where anybody can have their names.
    """
    local = [place for place in indexes if place.startswith("file:") or "://" not in place]
    for place in local:
        if wheelhouse.is_absent(place) or not wheelhouse.directories([place]):
            fact = "an index is neither an address nor a directory that is there"
            shown = re.sub("^(?!file:).*:.*@", "", place)  # what comes before an @ may be a login
            raise UserFault(fact, f"{name} {shown}", "https://HOST/PATH, or the path of that directory")


def _pins(text: str) -> list[tuple[str, str]]:
    """Find each name==version in a text."""
    return re.findall(r"([\w.-]+)==([\w.!+-]*\w)", text)


def _last_resorts(pins: Pinned) -> Iterable[tuple[str, str, str, str | None, str]]:
    """List the places that are asked for what no other has: place, fact, project, version, and another place."""
    fact = "pip's sources have no build of torch for the CPU, and PyTorch's own index cannot be reached"
    yield uv.TORCH_INDEX, fact, "torch", pins.torch, "a mirror as pip's extra-index-url"
    for place in filter(None, (pins.index, pins.find_links)):
        fact = "the index of the oneCCL bindings cannot be reached"
        yield without_login(place), fact, "oneccl_bind_pt", pins.bindings, "--bindings-index URL with a mirror"


def _unreachable(failed: str, causes: str, pins: Pinned) -> Fault:
    """Return the fault of an address; `causes` are uv's lines about it, of which the last one says most."""
    if status := re.search(r"HTTP status client error \((401|403) ", causes):
        return refused(failed, int(status[1]))
    cause = "".join(f" ({last.partition(' for url')[0]})" for last in re.findall("cause: (.+)", causes)[-1:])
    if re.search("invalid peer certificate|UnknownIssuer", cause):
        return WorldFault("the certificate of a package index is not trusted", failed + cause, TRUST)
    for place, fact, project, version, elsewhere in _last_resorts(pins):
        if failed.startswith(place):
            remedy = f"--wheelhouse DIR with that wheel in it, or {elsewhere}"
            return Unreachable(fact, f"{project} {version}, {place}{cause}", remedy, project)
    remedy = "check the network and proxy settings (HTTPS_PROXY) or pip's index-url; or --wheelhouse DIR"
    return WorldFault("cannot reach a package index", failed + cause, remedy)


def _undated(said: str) -> list[str]:
    """Name the packages that were left out because their files have no day of upload."""
    undated = {canonicalize_name(file.partition("-")[0]) for file in re.findall(rf"`(\S+)` {NO_DAY}", said)}
    left_out = re.findall(r"`(\S+)` was filtered by `exclude-newer`", said)
    return sorted({name for name in left_out if canonicalize_name(name) in undated})
