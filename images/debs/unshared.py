"""mmdebstrap in namespaces: its own mounts; what a user who is not root needs for that."""

from __future__ import annotations

import pwd
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.debs.mirrors import REMEDY, search_path
from images.host import process
from images.host.context import temporary
from images.host.errors import WorldFault

ETC = Path("/etc")
ROOT = "build once as root"
FIRST, COUNT = 100000, 65536  # the first id of all ranges, and ids of one: SUB_UID_MIN and SUB_UID_COUNT, login.defs(5)
ROW = re.compile("^([^:\n]+):([0-9]+):([0-9]+)", re.MULTILINE)  # of subuid(5): whose, the first id, how many
# What is still missing where a user has all that `fault` asks for.
ALLOW = (
    "allow user namespaces (sysctl user.max_user_namespaces; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
    f", or {ROOT}"
)


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
    """Raise the fault that `fault` returns, if any."""
    if found := fault(environ, uid):
        raise found


def _no_range(environ: Mapping[str, str], uid: int, etc: Path) -> WorldFault | None:
    """Return what is missing of newuidmap(1) and of the rows in subuid(5) and subgid(5).

    newuidmap takes a row that has the user's number, too; mmdebstrap looks for the name alone.
    """
    fact = "mmdebstrap cannot make the base without root: it needs other user ids"
    if (name := _name(uid)) is None:
        return WorldFault(fact, f"uid {uid} has no name, and its row is looked for by name", ROOT)
    if shutil.which("newuidmap", path=search_path(environ)) is None:
        return WorldFault(fact, "no newuidmap in PATH", f"sudo apt-get install uidmap, or {ROOT}")
    rows = {str(etc / file): _rows(etc / file) for file in ("subuid", "subgid")}
    if absent := [file for file, found in rows.items() if name not in (row[0] for row in found)]:
        free = _free([row for found in rows.values() for row in found])
        remedy = f"sudo usermod --add-subuids {free} --add-subgids {free} {name}, or {ROOT}"
        return WorldFault(fact, f"no row of {name} in {' and '.join(absent)}", remedy)
    return None


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user of a container, by number only
        return None


def _rows(file: Path) -> list[tuple[str, int, int]]:
    try:
        found = ROW.findall(file.read_text(errors="replace"))
    except OSError:
        return []
    return [(name, int(first), int(count)) for name, first, count in found]


def _free(rows: Sequence[tuple[str, int, int]]) -> str:
    """Return the lowest range of ids that nobody has."""
    free = FIRST
    for _, first, count in sorted(rows, key=lambda row: row[1]):
        if first < free + COUNT:
            free = max(free, first + count)
    return f"{free}-{free + COUNT - 1}"


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
