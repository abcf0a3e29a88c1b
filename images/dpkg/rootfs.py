"""A root file system from exact packages, straight into a layer: nothing of them is run."""

from __future__ import annotations

import hashlib
import re
import stat
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from images.debian import control
from images.debian.deb import Debian, Package, load_package
from images.debian.packages import ALWAYS
from images.dpkg import effects, suites
from images.dpkg.tree import DPKG_OPTIONS, FILE, PackageTree, merged_path
from images.host.errors import WorldFault
from images.oci.layer import Directories, Written
from images.oci.layer_writer import LayerWriter
from images.platforms import Platform

PLACE = "var/lib/dpkg"
ORDER = (
    "Package", "Essential", "Protected", "Status", "Priority", "Section", "Installed-Size", "Origin", "Maintainer",
    "Bugs", "Architecture", "Multi-Arch", "Source", "Version", "Replaces", "Provides", "Depends", "Pre-Depends",
    "Recommends", "Suggests", "Breaks", "Conflicts", "Enhances", "Conffiles", "Description",
)  # fmt: skip
INTEREST = re.compile(r"^interest(?P<how>-\w+)?\s+(?P<trigger>\S+)", re.MULTILINE)


def write_database(
    tree: PackageTree, packages: Mapping[str, Package], listed: Mapping[str, Sequence[str]], platform: Platform
) -> None:
    """Write dpkg's records of packages; `listed` are the paths of each.

    Raises LookupError for a file of configuration that is not there.
    """
    for name, package in packages.items():
        start = f"{PLACE}/info/{package.listed}"
        tree.file(f"{start}.list", "".join(f"{path}\n" for path in listed[name]))
        for kind, (data, mode) in package.control.items():
            if kind != "control":
                tree.file(f"{start}.{kind}", data, mode)
    tree.file(f"{PLACE}/info/format", "1\n")
    tree.file(f"{PLACE}/arch", f"{platform.architecture}\n")
    tree.file(f"{PLACE}/status", "".join(f"{paragraph(package, tree)}\n" for package in packages.values()))
    for name, text in _triggers(packages).items():
        tree.file(f"{PLACE}/triggers/{name}", text)


def mark_automatic(tree: PackageTree, names: Iterable[str], platform: Platform) -> None:
    """Say which packages nobody asked for by name: `apt-get autoremove` may remove them later."""
    rows = (f"Package: {name}\nArchitecture: {platform.architecture}\nAuto-Installed: 1\n\n" for name in sorted(names))
    tree.file("var/lib/apt/extended_states", "".join(rows))


def paragraph(package: Package, tree: PackageTree) -> str:
    """Return a package's paragraph in the file `status`."""
    about = {**package.about, "Status": "install ok installed"}
    if paths := conffiles(package):
        about["Conffiles"] = "".join(f"\n {path} {_md5(tree, path)}" for path in paths)
    names = [name for name in ORDER if name in about] + [name for name in about if name not in ORDER]
    return "".join(f"{name}:{'' if about[name].startswith(chr(10)) else ' '}{about[name]}\n" for name in names)


def conffiles(package: Package) -> list[str]:
    """Return the files of configuration of a package, without those that an upgrade removes (deb-conffiles(5))."""
    lines = package.text("conffiles").splitlines()
    return [line.strip() for line in lines if line.startswith("/")]


def _md5(tree: PackageTree, path: str) -> str:
    return hashlib.md5(tree.entries[merged_path(path.lstrip("/"))].data, usedforsecurity=False).hexdigest()


def _triggers(packages: Mapping[str, Package]) -> dict[str, str]:
    """Return the files that say which packages have an interest in what (deb-triggers(5)); `File` is of all paths."""
    triggers = {"Unincorp": ""}
    for package in packages.values():
        name = package.listed
        for match in INTEREST.finditer(package.text("triggers")):
            trigger, end = match["trigger"], "/noawait\n" if match["how"] == "-noawait" else "\n"
            file, line = ("File", f"{trigger} {name}") if trigger.startswith("/") else (trigger, name)
            triggers[file] = triggers.get(file, "") + line + end
    return triggers


AT_ONCE = 2  # packages that are unpacked at the same time; what unpacks them lets others run
AHEAD = 2
C_LIBRARY = "libc-bin"  # has ldconfig
# What an image must not have: devices, which are the engine's; a host key, which would be everybody's; what is of one
# machine; logs of an installation; caches, and lists of a day; what is of the moment.
DIRTY = re.compile(
    r"dev/.|etc/ssh/ssh_host_|etc/(hostname|resolv\.conf|machine-id)$|var/log/.|var/cache/(apt|ldconfig)"
    r"|var/lib/apt/lists/.|(tmp|run)/."
)
MODULES = re.compile(r"usr/(?:lib/python3[^/]*|share/python3)/.*\.py$")


def make_tree(recipe: Debian, debs: Sequence[Path], platform: Platform) -> PackageTree:
    """Return the tree of the packages of a recipe, which lie at `debs`.

    Raises WorldFault for what no image can have, and for a script that is not known.
    """
    tree = PackageTree()
    packages: dict[str, Package] = {}
    listed: dict[str, list[str]] = {}
    paths = sorted(debs, key=lambda path: path.name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for at in range(0, len(paths), AHEAD):
            for package in pool.map(load_package, paths[at : at + AHEAD]):
                _require_fitting(package, platform, packages)
                listed[package.name] = tree.unpack(package)
                packages[package.name] = replace(package, data=b"")
    packages = dict(sorted(packages.items()))
    suites.require_known(packages.values())
    suites.apply(tree, packages, recipe.suite, platform)
    _configure(tree, packages, listed, recipe, platform)
    _clean(tree)
    return tree


def write_tree(tree: PackageTree, out: Path, settings: Mapping[str, int]) -> Written:
    """Write a tree as a layer, compressed with these settings of zstd."""
    with LayerWriter(out, Directories(), settings) as layer:
        tree.write(layer)
        return layer.finish()


def write_modules(tree: PackageTree, out: Path) -> None:
    """Write the Python modules of a tree to an archive, by their paths, so that they can be compiled."""
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(filter(MODULES.match, tree.entries)):
            real = tree.entries.get(tree.real(path))
            if real and real.kind == FILE:
                archive.writestr(zipfile.ZipInfo(path), real.data)


def _require_fitting(package: Package, platform: Platform, others: Mapping[str, Package]) -> None:
    if package.name in others:
        raise WorldFault("a base has a Debian package twice", package.name, "make a new lock (build.py lock)")
    if package.about["Architecture"] not in (platform.architecture, "all"):
        value = f"{package.name} ({package.about['Architecture']})"
        raise WorldFault("a Debian package is for another machine", value, "make a new lock (build.py lock)")


def _configure(
    tree: PackageTree,
    packages: Mapping[str, Package],
    listed: Mapping[str, Sequence[str]],
    recipe: Debian,
    platform: Platform,
) -> None:
    """Write what apt, dpkg and ldconfig look into."""
    tree.file("etc/apt/sources.list", recipe.sources)
    tree.file("etc/fstab", "# UNCONFIGURED FSTAB FOR BASE SYSTEM\n")  # what scripts of packages look into
    tree.file("etc/dpkg/dpkg.cfg.d/99multinode", "".join(f"{option}\n" for option in DPKG_OPTIONS))
    try:
        if C_LIBRARY in packages:
            effects.write_cache(tree, platform)
        write_database(tree, packages, listed, platform)
    except (LookupError, ValueError) as error:
        fact = "a Debian package lacks what dpkg or ldconfig need"
        raise WorldFault(fact, error, "make a new lock (build.py lock)") from error
    mark_automatic(tree, packages.keys() - _wanted(packages, recipe.packages), platform)


def _clean(tree: PackageTree) -> None:
    """Remove what no image has, and let nothing run as another user."""
    for path in [path for path in tree.entries if DIRTY.match(path)]:
        del tree.entries[path]
    tree.complete()
    for entry in tree.entries.values():  # what is started as root has all rights anyway, and others need none of those
        entry.mode &= ~(stat.S_ISUID | stat.S_ISGID)


def _wanted(packages: Mapping[str, Package], named: Sequence[str]) -> set[str]:
    """Return the packages that stay: those that were named, or have what was, and what no system is without."""
    virtual = {*named} - packages.keys()
    kept = {
        name
        for name, package in packages.items()
        if package.about.get("Essential") == "yes"
        or package.about.get("Priority") == "required"
        or not virtual.isdisjoint(control.parse_provides(package.about.get("Provides", "")))
    }
    return kept | {*named, *ALWAYS}
