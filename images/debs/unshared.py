"""mmdebstrap in namespaces: its own mounts; for who is not root, other user ids and directories that they may pass."""

from __future__ import annotations

import pwd
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from images.debs.mirrors import REMEDY, search_path
from images.host import process
from images.host.context import temporary
from images.host.errors import WorldFault

ETC = Path("/etc")
ROOT = "build once as root"
RANGE = "100000-165535"  # what useradd(8) gives the first user


def fault(environ: Mapping[str, str], uid: int, etc: Path = ETC) -> WorldFault | None:
    """Return why a user cannot make a base here, as far as it can be known before; None for root.

    Without a range of ids mmdebstrap takes fakechroot where it is installed, which needs none of this.
    """
    if uid == 0:
        return None
    if (lack := _no_range(environ, uid, etc)) is None:
        return _closed(Path(temporary(environ)))
    return None if shutil.which("fakechroot", path=search_path(environ)) else lack


def require(environ: Mapping[str, str], uid: int) -> None:
    """Raise that fault where there is one."""
    if found := fault(environ, uid):
        raise found


def _no_range(environ: Mapping[str, str], uid: int, etc: Path) -> WorldFault | None:
    """Return what is missing of newuidmap(1) and of the rows in subuid(5) and subgid(5)."""
    fact = "mmdebstrap cannot make the base without root: it needs other user ids"
    if shutil.which("newuidmap", path=search_path(environ)) is None:
        return WorldFault(fact, "no newuidmap in PATH", f"sudo apt-get install uidmap, or {ROOT}")
    name = _name(uid)
    if absent := [str(etc / file) for file in ("subuid", "subgid") if not {name, str(uid)} & _owners(etc / file)]:
        remedy = f"sudo usermod --add-subuids {RANGE} --add-subgids {RANGE} {name}, or {ROOT}"
        return WorldFault(fact, f"no row of {name} in {' and '.join(absent)}", remedy)
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user of a container, by number only
        return str(uid)


def _owners(file: Path) -> set[str]:
    try:
        return {line.partition(":")[0] for line in file.read_text(errors="replace").splitlines()}
    except OSError:
        return set()


def _closed(place: Path) -> WorldFault | None:
    """Return the fault of a directory that other users may not pass on the way to temporary files."""
    path = place.resolve()
    closed = [each for each in (*reversed(path.parents), path) if not each.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return None
    value = f"{closed[0]} (mode {stat.S_IMODE(closed[0].stat().st_mode):o})"
    fact = "the user ids of mmdebstrap cannot reach the directory of temporary files"
    return WorldFault(fact, value, f"set TMPDIR to another directory, such as /var/tmp, or chmod o+x {closed[0]}")


def own_mounts(env: Mapping[str, str]) -> list[str]:
    """Return the words before mmdebstrap that let its mounts end with it; none where this user may not."""
    start = ["unshare", "--mount"]
    there = shutil.which(start[0], path=env["PATH"])
    return start if there and not process.run([*start, "mmdebstrap", "--version"], env, REMEDY).code else []
