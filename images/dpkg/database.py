"""What dpkg and apt remember of packages that are installed (deb-control(5), dpkg's lib/dpkg/parse.c and dump.c)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from images.debian.deb import Package
from images.dpkg.tree import PackageTree, merged_path
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
