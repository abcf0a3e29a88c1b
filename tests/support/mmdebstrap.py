"""A root file system by Debian's own programs, from exact packages: what ours is compared with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from images.dpkg.tree import DPKG_OPTIONS
from images.platforms import Platform
from images.store.blobs import sha256
from tests.support.harness import call

# What the package usrmerge does with a program in Perl. Made first, these links let usr-is-merged take its place.
MERGED = 'for name in bin lib lib64 sbin; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
# Not every machine has something for it, and Debian makes such a link only to what is there.
UNUSED = 'if rmdir "$1/usr/lib64"; then rm "$1/lib64"; fi'
PATIENCE = 3600  # seconds: under emulation
# For the scripts of packages, which see nothing else of the user.
ENVIRONMENT = {"SOURCE_DATE_EPOCH": "1704067200", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}


def make(debs: Sequence[Path], names: Sequence[str], platform: Platform, place: Path) -> Path:
    """Write the tar of a root file system with all of these packages, whose names are `names`.

    The kernel has to be able to start programs for the platform.
    """
    repository, out = place / "repository", place / "root.tar"
    repository.mkdir()
    index = []
    for deb in debs:
        os.link(deb, repository / deb.name)
        about = call(["dpkg-deb", "--field", str(deb)]).out.rstrip()
        index.append(f"{about}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {sha256(deb)}\n")
    (repository / "Packages").write_text("\n".join(index))
    command = [
        "mmdebstrap",
        "--variant=minbase",
        "--format=tar",
        f"--architectures={platform.architecture}",
        "--skip=check/qemu",  # it would ask for another program, arch-test
        f"--include={','.join(names)}",
        f"--setup-hook={MERGED}",
        f"--customize-hook={UNUSED}",
    ]
    command += [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    done = call(
        [*command, "", str(out), f"deb [trusted=yes] copy:{repository} ./"],
        env={"PATH": os.environ["PATH"], **ENVIRONMENT},
        seconds=PATIENCE,
    )
    assert done.code == 0, done.text
    return out
