"""A root file system as a tar, from exact .debs, by mmdebstrap and without a network."""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.debs import unshared
from images.debs.apt import ALWAYS, Deb
from images.debs.mirrors import REMEDY
from images.host import process
from images.host.context import temporary
from images.host.errors import Damaged, WorldFault
from images.host.store import Store
from images.host.text import shortened
from images.oci.archive import file_header

# Left out of every package, now and by every later apt-get in a derived image, as in Debian's own slim images.
LEFT_OUT = ("man", "info", "locale")  # below usr/share
DPKG_OPTIONS = (
    *(f"path-exclude=/usr/share/{name}/*" for name in LEFT_OUT),
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/lib/python3*/EXTERNALLY-MANAGED",  # pip works in an image as anywhere else
)

REPOSITORY = "debs"  # in the root file system while it is made
# Put into the root while it is made: nobody needs one that survives a power cut before it is a tar.
UNSAFE = "etc/dpkg/dpkg.cfg.d/unsafe-io"
SOURCES = f"{REPOSITORY}/sources.list"
# apt runs outside of the root, whose place only the hooks know: as root and in a user namespace alike.
BEFORE = f'echo "deb [trusted=yes] file:$1/{REPOSITORY} ./" >"$1/etc/apt/sources.list"'
# What the package usrmerge does with a program in Perl. Made first, these links let usr-is-merged take its place:
# init-system-helpers takes either (https://wiki.debian.org/UsrMerge).
MERGED = 'for name in bin lib lib64 sbin; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
# mmdebstrap unpacks the essential packages itself, before dpkg is there, and starts a program in Python for each of
# them if dpkg's options are there by then. So they come after that, under the name that mmdebstrap gives them, and what
# they leave out is removed; the directories keep their times.
OPTIONS, CONFIGURED = f"{REPOSITORY}/options", "etc/dpkg/dpkg.cfg.d/99mmdebstrap"
UNPACKED = f"""set -e
mv "$1/{OPTIONS}" "$1/{CONFIGURED}"
for name in {" ".join(LEFT_OUT)}; do
    test -d "$1/usr/share/$name" || continue
    time=$(stat --format=%Y "$1/usr/share/$name")
    find "$1/usr/share/$name" -mindepth 1 -delete
    touch --date="@$time" "$1/usr/share/$name"
done
find "$1/usr/share/doc" -mindepth 2 ! -type d ! -name copyright -delete
find "$1/usr/share/doc" -mindepth 2 -type d -empty -delete"""
# openssh-server makes keys for the host where there are none: seconds for files that no image may have.
HOST_KEYS = 'mkdir -p "$1/etc/ssh"; for kind in rsa ecdsa ed25519; do touch "$1/etc/ssh/ssh_host_${kind}_key"; done'
AFTER = f'mv "$1/{SOURCES}" "$1/etc/apt/sources.list" && rm -r "$1/{REPOSITORY}" "$1/{UNSAFE}"'


def pack(store: Store, debs: Sequence[Deb], sources: str, out: Path, environ: Mapping[str, str]) -> None:
    """Write packages, the index of a flat repository of them, and what dpkg is told, as one tar.

    `sources` is the sources.list that the root file system has in the end.
    Raises Damaged when a package is not in the store.
    """
    options = "".join(f"{option}\n" for option in DPKG_OPTIONS)
    more = {SOURCES: sources, UNSAFE: "force-unsafe-io\n", OPTIONS: options}
    index = []
    # Where dpkg-deb is killed, it leaves a directory.
    with store.aside(directory=True) as own, tarfile.open(out, "w") as tar:
        for deb in debs:
            path = _deb(store, deb)
            size = path.stat().st_size
            index.append(paragraph(_control(store, path, {**environ, "TMPDIR": str(own)}), deb.sha256, size))
            with path.open("rb") as data:
                tar.addfile(file_header(f"{REPOSITORY}/{deb.sha256}.deb", size), data)
        for name, text in {f"{REPOSITORY}/Packages": "\n".join(index), **more}.items():
            tar.addfile(file_header(name, len(text.encode())), io.BytesIO(text.encode()))


def paragraph(control: str, sha256: str, size: int) -> str:
    """Return a package's paragraph of a Packages index from its control file (deb-control(5))."""
    return f"{control.rstrip()}\nFilename: ./{sha256}.deb\nSize: {size}\nSHA256: {sha256}\n"


def _deb(store: Store, deb: Deb) -> Path:
    path = store.whole(deb.sha256, deb.filename)
    if path is None:
        raise Damaged(store.place(deb.sha256, deb.filename))
    return path


def _control(store: Store, path: Path, environ: Mapping[str, str]) -> str:
    done = process.run(["dpkg-deb", "--field", str(path)], environ, REMEDY)
    if done.code:
        remedy = f"make room in {store.root}; if it is no package, the lock has to name another one"
        raise WorldFault("dpkg-deb cannot read a package", f"{path.name} ({done.complaint})", remedy)
    return done.out


def run(packages: Sequence[str], parts: Path, out: Path, env: Mapping[str, str]) -> None:
    """Install packages from what `pack` wrote, without network, and write the root file system as a tar.

    Raises WorldFault when mmdebstrap fails.
    """
    command = [*unshared.own_mounts(env), "mmdebstrap", "--variant=minbase", "--format=tar", "--skip=check/signed-by"]
    command += ["--architectures=amd64", "--include=" + ",".join([*ALWAYS, *packages])]
    before = (f"tar-in {shlex.quote(str(parts))} /", BEFORE, MERGED)
    command += [f"--setup-hook={hook}" for hook in before]
    command += [f"--extract-hook={UNPACKED}", f"--extract-hook={HOST_KEYS}", f"--customize-hook={AFTER}"]
    nowhere = ""  # neither a suite nor a mirror: the first hook brings them
    done = process.run([*command, nowhere, str(out), nowhere], env, REMEDY, apart=True)
    if done.code:
        remedy = f"check that the disk and {temporary(env)} have 1 GB free; not root? {unshared.ALLOW}"
        raise WorldFault("mmdebstrap could not make the base", shortened(done.complaint), remedy)
