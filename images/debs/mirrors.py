"""Where Debian packages come from: Debian's own mirror, or those that the machine's apt has (sources.list(5))."""

from __future__ import annotations

import re
from collections.abc import Mapping

from images.host import process
from images.host.errors import WorldFault

# mmdebstrap knows the mirrors of a suite, and writes them into sources.list first. A hook prints that file and fails,
# so that mmdebstrap does nothing more.
# Without looking which keys the machine's apt trusts: of others it would name the keyring in that file, which becomes
# the image's.
MARK = "SOURCE: "
SHOW = f'sed "s/^/{MARK}/" "$1/etc/apt/sources.list" >&2; false'
# What apt-get indextargets prints of a source. The first two are known after an apt-get update only.
TARGET = "$(ORIGIN)\t$(CODENAME)\t$(RELEASE)\t$(REPO_URI)"
PARTS = ("", "updates", "security")  # what follows a suite's name, as in bookworm-security
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
REMEDY = "sudo apt-get install mmdebstrap debian-archive-keyring (on Debian or Ubuntu)"


def search_path(environ: Mapping[str, str]) -> str:
    """Return the PATH that mmdebstrap and packages need: not every user's has the directories of root's programs."""
    return environ.get("PATH", "") + ":/usr/sbin:/sbin"


def default_sources(suite: str, environ: Mapping[str, str]) -> str:
    """Return the sources.list of a suite as mmdebstrap writes it: archive, updates, security."""
    env = {**environ, "PATH": search_path(environ), "LC_ALL": "C.UTF-8"}
    command = ["mmdebstrap", "--mode=chrootless", "--variant=custom", "--skip=check/signed-by"]
    done = process.run([*command, f"--setup-hook={SHOW}", suite, "/dev/null"], env, REMEDY)
    lines = [line.removeprefix(MARK) for line in done.err.splitlines() if line.startswith(MARK)]
    if not lines:
        raise WorldFault("mmdebstrap does not know that suite", f"{suite}: {done.complaint}", REMEDY)
    return "".join(f"{line}\n" for line in lines)


def machine_sources(suite: str, environ: Mapping[str, str]) -> str:
    """Return the sources.list of a suite by the addresses that the machine's own apt has; nothing outside of Debian."""
    command = ["apt-get", "indextargets", f"--format={TARGET}", "Identifier: Packages", "Component: main"]
    return sources(process.run(command, {**environ, "LC_ALL": "C.UTF-8"}, REMEDY).out, suite)


def sources(printed: str, suite: str) -> str:
    """Return the sources.list of a suite out of lines by TARGET: all of Debian's suites have the same addresses."""
    found: dict[str, str] = {}
    rows = [line.split("\t") for line in printed.splitlines() if line.count("\t") == 3]
    for origin, codename, release, address in sorted(rows, key=lambda row: row[2].startswith(suite)):
        own = release == suite or release.startswith(f"{suite}-")
        part = (release if own else codename).partition("-")[2]
        if (own or (origin == "Debian" and "/" not in release)) and part in PARTS:
            found[part] = address
    lines = [f"deb {found[part]} {suite}{'-' if part else ''}{part} main\n" for part in PARTS if part in found]
    return "".join(lines) if "" in found else ""


def addresses(listed: str) -> list[str]:
    """Return the addresses in a sources.list, each once, in order."""
    found = re.findall(r"(?m)^deb +(?:\[[^]\n]*] *)?([^\s\[]\S*)", listed)
    return list(dict.fromkeys(address.rstrip("/") for address in found))


def signed(listed: str) -> str:
    """Return sources with Debian's keyring named in each: apt's own need not be Debian's."""
    return re.sub(r"(?m)^deb (?!\[)", f"deb [signed-by={KEYRING}] ", listed)
