"""Where Debian's packages come from: Debian's own mirror, or one that the user names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "MULTINODE_DEBIAN_MIRROR"
DOMAIN = "debian.org"
OWN, SECURITY = f"http://deb.{DOMAIN}/debian", f"http://security.{DOMAIN}/debian-security"  # of an image
HERE = f"https://deb.{DOMAIN}/debian"  # where packages are downloaded from, beside it the security updates
PARTS = ("", "-updates", "-security")  # what follows a suite's name, as in bookworm-security
APT = Path("/etc/apt")
ANY_AGE = re.compile(r'^[ \t]*Acquire::Check-Valid-Until[ \t]+"(?:false|no|0)"[ \t]*;', re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A suite in an archive, such as bookworm-updates in Debian's own."""

    uri: str
    suite: str


def own(suite: str) -> tuple[Source, ...]:
    """Return Debian's own mirrors of a suite, of its updates and of its security updates, as an image has them."""
    return tuple(Source(SECURITY if part == "-security" else OWN, suite + part) for part in PARTS)


def choose_mirrors(suite: str, environ: Mapping[str, str]) -> tuple[Source, ...]:
    """Return the mirror that the user names, else Debian's own; security updates lie beside it, by custom."""
    mirror = read_named(environ) or HERE
    return tuple(Source(mirror + part.replace("-updates", ""), suite + part) for part in PARTS)


def read_named(environ: Mapping[str, str]) -> str:
    """Return the mirror that the user names, empty where he does not."""
    return environ.get(VARIABLE, "").strip().rstrip("/")


def may_expire(apt: Path = APT) -> bool:
    """Return whether an index may be too old: not where this machine's apt takes one of any age, as of a snapshot."""
    return not any(ANY_AGE.search(_read_if_there(path)) for path in (*(apt / "apt.conf.d").glob("*"), apt / "apt.conf"))


def listed(sources: tuple[Source, ...]) -> str:
    """Return sources as a sources.list(5)."""
    return "".join(f"deb {source.uri} {source.suite} main\n" for source in sources)


def _read_if_there(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
